# SPDX-License-Identifier: PostgreSQL
"""How fast a device reads and writes, measured in a second, to estimate how long a move takes.

The read test bypasses the page cache if the file system allows it, and reads an existing file.  The
write test writes a temporary file, which is synced and removed.  Both run as the server's user;
root itself writes only where nobody else can change what a name leads to.  If neither is allowed,
or the server is elsewhere, a speed is assumed, and the answer says so.
"""

import contextlib
import mmap
import os
import tempfile
import time
from pathlib import Path

from pgflash.model.sizes import MB
from pgflash.model.words import size
from pgflash.place import files
from pgflash.place.owner import Owner
from pgflash.trusted import ROOT, ChangeableError, opened_parent

_PROBE_BYTES = 32 << 20
_CHUNK_BYTES = 1 << 20

#: The speed of a plain disk.
ASSUMED_BYTES_S = 100.0 * MB


def read_bytes_s(path: Path | None) -> float | None:
    """Return how fast a file can be read from its device, or None if that cannot be measured."""
    if path is None:
        return None
    buffer = mmap.mmap(-1, _CHUNK_BYTES)
    try:
        number = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NONBLOCK)
    except OSError:
        return None
    done, begun = 0, time.monotonic()
    try:
        while done < _PROBE_BYTES and (got := os.preadv(number, [buffer], done)) > 0:
            done += got
    except OSError:
        return None
    finally:
        os.close(number)
    return done / max(time.monotonic() - begun, 1e-6) if done >= _CHUNK_BYTES else None


def write_bytes_s(path: Path, owner: Owner) -> float | None:
    """Return how fast the device of a folder, which may not exist yet, writes, or None."""
    measured = owner.do(lambda: _write_bytes_s(files.nearest(path)))
    if measured is None and os.geteuid() == 0:
        with (
            contextlib.suppress(ChangeableError, OSError),
            opened_parent(path, who=ROOT) as (folder, _name),
        ):
            return _write_bytes_s(Path(f"/proc/self/fd/{folder}"))
    return measured


def _write_bytes_s(folder: Path) -> float | None:
    """Return how fast a folder's device writes with a sync, or None if that cannot be measured."""
    try:
        with tempfile.TemporaryFile(prefix=".pgflash-", dir=folder) as file:
            chunk = os.urandom(_CHUNK_BYTES)
            begun = time.monotonic()
            for _number in range(_PROBE_BYTES // _CHUNK_BYTES):
                file.write(chunk)
            file.flush()
            os.fdatasync(file.fileno())
            return _PROBE_BYTES / max(time.monotonic() - begun, 1e-6)
    except OSError:
        return None


def slower(one: float | None, other: float | None) -> tuple[float, str]:
    """Return the speed of a copy between two devices, and how it is known."""
    known = [speed for speed in (one, other) if speed is not None]
    if not known:
        return ASSUMED_BYTES_S, f"assumed {size(ASSUMED_BYTES_S)}/s"
    return min(known), f"measured {size(min(known))}/s"
