# SPDX-License-Identifier: PostgreSQL
"""Whether a server runs on this machine, so that we may look at its machine and its files.

An address may lead through a tunnel, so the test is whether our own session's server process is
visible here and began when the server says it did.  A server in a container of its own is not
"here": its process ids, its mounts and its paths mean something else.
"""

import os
import socket
import struct
from pathlib import Path

from pgflash.session import Connection

#: How far the kernel's and the server's start times of one process may differ.
_SAME_START_S = 5.0

_SELF = """
select pid, extract(epoch from backend_start)::float8 from pg_catalog.pg_stat_activity
 where pid = pg_catalog.pg_backend_pid()
"""


def why_not_local(connection: Connection) -> str:
    """Return why the server is not on this machine, or nothing if it is."""
    row = connection.execute(_SELF).fetchone()
    ours = None if row is None else _process_start(int(row[0]))
    if row is not None and ours is not None and abs(ours - float(row[1])) < _SAME_START_S:
        return ""
    return "the server is not on this machine, or its processes are not seen here"


def postmaster_pid(connection: Connection) -> int | None:
    """Return the parent of all processes of a local server, or None."""
    row = connection.execute(_SELF).fetchone()
    words = None if row is None else _stat(int(row[0]))
    return None if words is None else int(words[1])


def listener(connection: Connection) -> int | None:
    """Return the user whose process listens at the other end, or None if that is unknown."""
    with socket.socket(fileno=os.dup(connection.fileno())) as ours:
        if ours.family != socket.AF_UNIX:
            return None
        told = ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", told)
    return int(uid)


def _process_start(pid: int) -> float | None:
    """Return when a process of this machine started, in seconds since 1970."""
    words = _stat(pid)
    try:
        machine = Path("/proc/stat").read_text()
    except OSError:
        return None
    if words is None:
        return None
    boot = next(int(line.split()[1]) for line in machine.splitlines() if line.startswith("btime"))
    return boot + int(words[19]) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str] | None:
    """Return the fields of a process in /proc, from its state on."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return told[told.rindex(")") + 2 :].split()
