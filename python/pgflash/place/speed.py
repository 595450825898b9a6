# SPDX-License-Identifier: PostgreSQL
"""How fast devices read and write under the present load, to say how long a move may take.

A device is measured in pieces with pauses, over two seconds at most: the faster and the slower
half of them tell what the load leaves.  The read test bypasses the page cache if the file system
allows it, and reads an existing file.  The write test syncs each piece of a temporary file, which
is removed.  Both run as the server's user; root itself writes only where nobody else can change
what a name leads to.  If neither is allowed, or the server is elsewhere, speeds are assumed, and
the answer says so.

A move takes at least as long as its bytes take to be written at the speed of the faster half: it
reads meanwhile, maybe from memory.  At most, as we say, it reads, writes and logs its bytes one
after the other, at the speeds of the slower halves, and all of that takes three times as long: a
checkpoint may fall into it, and the move itself is a load.  A device that others share can stall
for longer still, and nothing here foresees that.
"""

import contextlib
import mmap
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import harmonic_mean

from pgflash.model.sizes import MB
from pgflash.model.words import size
from pgflash.place import files
from pgflash.place.owner import Owner
from pgflash.trusted import ROOT, ChangeableError, opened_parent

_CHUNK_BYTES = 1 * MB
_PIECE_CHUNKS = 2
_PIECES = 12
_PATIENCE_S = 2.0
_PAUSE_S = 0.1
#: With fewer there are no halves.
_PIECES_MIN = 3

#: The upper bound is this many times the slowest estimate.
UNFORESEEN = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast a device reads or writes, in bytes a second."""

    quick: float
    slow: float
    is_measured: bool = True


#: Of a slow disk that is busy, and of a fast one that is not.
ASSUMED = Rate(quick=500.0 * MB, slow=20.0 * MB, is_measured=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long a move may take, in seconds, and what that is based on."""

    least_s: float = 0.0
    most_s: float = 0.0
    basis: str = ""

    def later(self, least_s: float, most_s: float) -> "Estimate":
        """Return the estimate with something that comes on top."""
        return Estimate(
            least_s=self.least_s + least_s, most_s=self.most_s + most_s, basis=self.basis
        )


def estimate(
    count: int, *, writes: Rate | None, reads: Rate | None = None, log: Rate | None = None
) -> Estimate:
    """Return how long a copy of so many bytes takes; None: it could not be measured.

    LOG is that of the device that also gets them as WAL, if they are logged.
    """
    rates = [one or ASSUMED for one in (writes, reads)] + ([log] if log is not None else [])
    quick = (writes or ASSUMED).quick
    slow = 1 / sum(1 / one.slow for one in rates)
    known = "measured now" if all(one.is_measured for one in rates) else "partly assumed"
    if not any(one.is_measured for one in rates):
        known = "assumed"
    return Estimate(
        least_s=count / quick,
        most_s=UNFORESEEN * count / slow,
        basis=f"{known}, {size(slow)}/s to {size(quick)}/s",
    )


# ---- measuring; a child of the owner's answers in JSON, so the speeds are a list


def rate_of(speeds: list[float] | None) -> Rate | None:
    """Return the rate that the speeds of pieces make, if there are any."""
    if not speeds:
        return None
    half = (len(speeds) + 1) // 2
    slower, faster = sorted(speeds)[:half], sorted(speeds)[-half:]
    return Rate(quick=harmonic_mean(faster), slow=harmonic_mean(slower))


def read_speeds(path: Path | None) -> list[float] | None:
    """Return how fast pieces of a file are read from its device, or None if that is not known."""
    if path is None:
        return None
    buffer = mmap.mmap(-1, _CHUNK_BYTES)
    try:
        number = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NONBLOCK)
    except OSError:
        return None
    place = 0

    def chunk() -> None:
        nonlocal place
        if os.preadv(number, [buffer], place) == _CHUNK_BYTES:
            place += _CHUNK_BYTES
        elif place:
            place = 0  # again from its beginning: nothing of it is in the page cache
        else:
            raise OSError

    try:
        return _speeds(chunk)
    except OSError:
        return None
    finally:
        os.close(number)


def write_speeds(path: Path, owner: Owner) -> list[float] | None:
    """Return how fast the device of a folder, which may not exist yet, writes, or None."""
    measured = owner.do(lambda: _write_speeds(files.nearest(path)))
    if measured is None and os.geteuid() == 0:
        with (
            contextlib.suppress(ChangeableError, OSError),
            opened_parent(path, who=ROOT) as (folder, _name),
        ):
            return _write_speeds(Path(f"/proc/self/fd/{folder}"))
    return measured


def _write_speeds(folder: Path) -> list[float] | None:
    try:
        with tempfile.TemporaryFile(prefix=".pgflash-", dir=folder) as file:
            content = os.urandom(_CHUNK_BYTES)

            def chunk() -> None:
                file.write(content)
                file.flush()

            return _speeds(chunk, lambda: os.fdatasync(file.fileno()))
    except OSError:
        return None


def _speeds(chunk: Callable[[], object], end: Callable[[], object] = lambda: None) -> list[float]:
    """Return the speeds of pieces, in bytes a second: each is some chunks, and what ends it."""
    speeds: list[float] = []
    begun = time.monotonic()
    while len(speeds) < _PIECES_MIN or (
        len(speeds) < _PIECES and time.monotonic() - begun < _PATIENCE_S
    ):
        time.sleep(_PAUSE_S)
        start = time.monotonic()
        for _number in range(_PIECE_CHUNKS):
            chunk()
        end()
        speeds.append(_PIECE_CHUNKS * _CHUNK_BYTES / max(time.monotonic() - start, 1e-6))
    return speeds
