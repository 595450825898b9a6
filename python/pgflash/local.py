# SPDX-License-Identifier: PostgreSQL
"""Whether a server runs on this machine, so that we may look at its machine and its files.

An address may lead through a tunnel, so the test is whether our own session's server process is
visible here and began when the server says it did.  A server in a container of its own is not
"here": its process ids, its mounts and its paths mean something else.
"""

import contextlib
import os
import socket
import struct

from pgflash.machine.processes import Process
from pgflash.session import Connection

#: How far the kernel's and the server's start times of one process may differ.  On a machine that
#: stalls, the server notes the time seconds after the process began; clocks are also set.
_SAME_START_S = 60.0

_SELF = """
select pid, extract(epoch from backend_start)::float8 from pg_catalog.pg_stat_activity
 where pid = pg_catalog.pg_backend_pid()
"""


def why_not_local(connection: Connection) -> str:
    """Return why the server is not on this machine, or nothing if it is."""
    row = connection.execute(_SELF).fetchone()
    with contextlib.suppress(OSError):
        if row is not None and _differs_s(*row) < _SAME_START_S:
            return ""
    return "the server is not on this machine, or its processes are not visible here"


def postmaster_pid(connection: Connection) -> int | None:
    """Return the parent of all processes of a local server, or None."""
    row = connection.execute(_SELF).fetchone()
    with contextlib.suppress(OSError):
        return None if row is None else Process(int(row[0])).stat().parent
    return None


def listener(connection: Connection) -> int | None:
    """Return the user whose process listens at the other end, or None if that is unknown."""
    with socket.socket(fileno=os.dup(connection.fileno())) as ours:
        if ours.family != socket.AF_UNIX:
            return None
        told = ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", told)
    return int(uid)


def _differs_s(pid: int, started_at: float) -> float:
    """Return how far the kernel's start time of a process is from the server's."""
    return abs(Process(pid).started_at() - started_at)
