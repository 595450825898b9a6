# SPDX-License-Identifier: PostgreSQL
"""Servers that read by io_uring: which can, and with how many rings.

A server that is built with liburing reads by io_uring in tests, unless a test says otherwise.  It
makes a ring for each process that it may have, when it starts, and again after each crash of a
child, without giving up the former ones.  Since Linux 6.14 a ring's two pages count as locked
memory of the user that the server runs as, so 8 MB (`ulimit -l`) are 1,024 rings of all its servers
together.  Hence fewer connections.
"""

import ctypes
import errno
import os
from functools import cache

from pgflash_lab.postgres import PgInstall
from support.imports import needed

#: 70 rings instead of 142.
SETTINGS = {"io_method": "io_uring", "max_connections": "40", "autovacuum_worker_slots": "4"}

_IO_URING_SETUP = 425
_PARAMETERS_BYTES = 120


def uring_settings(install: PgInstall) -> dict[str, str]:
    """Return the settings by which a server reads by io_uring; none if it cannot."""
    return SETTINGS if reads_by_uring(install) else {}


def call_settings(install: PgInstall) -> dict[str, str]:
    """Return the settings by which a server reads by calls that a preloaded library can replace."""
    return {"io_method": "worker"} if reads_by_uring(install) else {}


def reads_by_uring(install: PgInstall) -> bool:
    """Say whether servers of an installation read by io_uring unless told otherwise."""
    return has_uring(install) and not uring_forbidden()


def has_uring(install: PgInstall) -> bool:
    """Say whether an installation was built with liburing."""
    return install.major >= 18 and "liburing" in _needed(install.program("postgres"))


_needed = cache(needed)


@cache
def uring_forbidden() -> str:
    """Return why nobody may make a ring here, or an empty string."""
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(_PARAMETERS_BYTES)
    descriptor = libc.syscall(_IO_URING_SETUP, 1, parameters)
    if descriptor >= 0:
        os.close(descriptor)
        return ""
    error = ctypes.get_errno()
    return (
        f"io_uring_setup: {errno.errorcode[error]}" if error in {errno.EPERM, errno.ENOSYS} else ""
    )
