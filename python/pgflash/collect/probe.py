# SPDX-License-Identifier: PostgreSQL
"""Measure a device with a new file, bypassing the page cache and leaving nothing behind.

The file has no name: it is opened without one (O_TMPFILE), or loses it at once, so that not even a
killed probe leaves it behind, and no existing file is ever opened.  It is first written with random
bytes, since drives that compress would read zeros from memory; this is also the sequential write
test.  Then it is read in order, and read at random at several depths.  Finally 8 kB are written and
synced again and again, as commits do.

Reads and writes use O_DIRECT. A file system that refuses it is refused in turn: we would measure
its page cache.  We cannot see what a controller or a hypervisor caches; a file larger than such a
cache helps (`--size`).

Depth n means n threads with one request each.  Python starts some tens of thousands of requests a
second; if fio is installed, it does the random reads, and the result says so.  Every step ends in
time: its loops check the clock between requests.
"""

import contextlib
import mmap
import os
import random
import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgflash.analyze.ranks import percentile
from pgflash.collect import fio
from pgflash.errors import PgflashError, UsageError
from pgflash.model.device import DepthPoint, Probe
from pgflash.model.words import duration, size
from pgflash.progress import Listener

BLOCK_BYTES = 8192
STREAM_BYTES = 2**20
STREAMS = 4
DEPTHS = (1, 4, 16, 32)

#: A smaller file would be read from the device's own memory.
SIZE_MIN = 16 * 2**20
#: Space to leave free beside the file.
SPARE_BYTES = 64 * 2**20
#: Writing the file may take this many times as long as another step; then it stays that size.
_WRITE_STEPS = 10
#: Commits cycle through a part of the file, as WAL does through its segments.
_SYNC_BYTES = 16 * 2**20
_RANDOM_BYTES = 8 * 2**20

#: Writing and reading in order, reading at random, syncing.
_STEPS = 3 + len(DEPTHS)


class ProbeError(PgflashError):
    """A device cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A probe in progress."""

    opened: int
    size_bytes: int
    seconds: float
    stop: threading.Event

    def goes_on(self, until: float) -> bool:
        return time.monotonic() < until and not self.stop.is_set()


def probe(
    folder: Path,
    *,
    at: str,
    size_bytes: int = 2**30,
    seconds: float = 3.0,
    use_fio: bool = True,
    listener: Listener | None = None,
) -> Probe:
    """Measure the device that a folder is on, with a file of SIZE_BYTES, SECONDS for each step."""
    _check(folder, size_bytes)
    with _file(folder) as opened:
        run = _Run(opened=opened, size_bytes=size_bytes, seconds=seconds, stop=threading.Event())
        try:
            return _measure(
                run,
                at=at,
                listener=listener or Listener(),
                program=fio.version() if use_fio else "",
            )
        except OSError as error:
            raise ProbeError(f'could not measure "{folder}": {error.strerror}') from error
        finally:
            run.stop.set()


def _measure(run: _Run, *, at: str, listener: Listener, program: str) -> Probe:
    listener.plan(_STEPS * run.seconds)
    listener.stage("writing in order", expected_s=run.seconds)
    written, write_bytes_s = _write(run)
    run = _Run(opened=run.opened, size_bytes=written, seconds=run.seconds, stop=run.stop)
    listener.stage("reading in order", expected_s=run.seconds)
    read_bytes_s = _read_in_order(run)
    points = []
    for depth in DEPTHS:
        listener.stage(f"reading at random, {depth} at once", expected_s=run.seconds)
        if program:
            points.append(
                fio.random_reads(
                    run.opened, depth=depth, seconds=run.seconds, block_bytes=BLOCK_BYTES
                )
            )
        else:
            points.append(_read_at_random(run, depth))
    listener.stage("writing and syncing", expected_s=run.seconds)
    syncs = _sync(run)
    return Probe(
        random_reads=tuple(points),
        read_bytes_s=read_bytes_s,
        write_bytes_s=write_bytes_s,
        sync_ms=statistics.fmean(syncs),
        sync_p99_ms=percentile(sorted(syncs), 0.99),
        by=program or "pgflash",
        at=at,
    )


# ---- the file


def _check(folder: Path, size_bytes: int) -> None:
    if not is_folder(folder):
        raise UsageError(
            f'"{folder}" is not a folder', hint="Name a folder on the device to measure."
        )
    if size_bytes < SIZE_MIN:
        raise UsageError(
            f"a file of {size(size_bytes)} is too small for a measurement",
            hint=f"Take {size(SIZE_MIN)} or more.",
        )
    try:
        told = os.statvfs(folder)
    except OSError as error:
        raise _refusal(folder, error) from error
    free = told.f_bavail * told.f_frsize
    if free < size_bytes + SPARE_BYTES:
        raise UsageError(
            f'"{folder}" has {size(free)} free, not enough for a file of {size(size_bytes)}',
            hint="Use a smaller one with --size; it should be larger than the device's own cache.",
        )


def is_folder(folder: Path) -> bool:
    """Tell whether it is a visible folder; an inaccessible one counts as none."""
    try:
        return folder.is_dir()
    except OSError:
        return False


@contextlib.contextmanager
def _file(folder: Path) -> Iterator[int]:
    """Yield a new file without a name, open for direct I/O."""
    try:
        opened = _open(folder, os.O_DIRECT)
    except OSError as error:
        raise _refusal(folder, error) from error
    try:
        yield opened
    finally:
        os.close(opened)


def _open(folder: Path, how: int) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | how
    with contextlib.suppress(OSError):  # not every file system can create a file without a name
        return os.open(folder, flags | os.O_TMPFILE, 0o600)
    # Keep the folder open from the file's creation on: another user of it could put a link there.
    above = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        name = f".pgflash-probe-{secrets.token_hex(6)}"
        try:
            flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            return os.open(name, flags, 0o600, dir_fd=above)
        finally:
            # A file system that refuses direct I/O has created the file nevertheless.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=above)
    finally:
        os.close(above)


def _refusal(folder: Path, error: OSError) -> PgflashError:
    """Tell a file system without direct I/O from a folder that we may not write to."""
    with contextlib.suppress(OSError):
        os.close(_open(folder, 0))
        return ProbeError(
            f'the file system of "{folder}" refuses direct I/O',
            hint="Only its page cache could be measured, not the device.",
        )
    return ProbeError(
        f'could not write to "{folder}": {error.strerror}',
        hint="Name a folder that this user may write to.",
    )


# ---- the steps


def _write(run: _Run) -> tuple[int, float]:
    """Write the file from its beginning; return the bytes written, and bytes a second."""
    source = _random_bytes()
    turn = _Turns(run.size_bytes // STREAM_BYTES)
    begin = time.monotonic()
    until = begin + _WRITE_STEPS * run.seconds

    def work(_number: int) -> None:
        while run.goes_on(until) and (place := turn.next()) is not None:
            # Each piece begins elsewhere in the random bytes, so that no two are the same.
            shift = place * 4096 % _RANDOM_BYTES
            _write_whole(run.opened, source[shift : shift + STREAM_BYTES], place * STREAM_BYTES)

    _in_threads(run, STREAMS, work)
    os.fdatasync(run.opened)
    took = time.monotonic() - begin
    # Every position that was taken was written, so the file has no holes.
    written = turn.taken * STREAM_BYTES
    if written < SIZE_MIN:
        raise ProbeError(
            f"only {size(written)} were written in {duration(took)}: the device is too slow "
            f"for this measurement",
            hint="Give each step more time with --seconds.",
        )
    return written, written / took


def _read_in_order(run: _Run) -> float:
    turn = _Turns(run.size_bytes // STREAM_BYTES, again=True)
    read = [0] * STREAMS
    begin = time.monotonic()
    until = begin + run.seconds

    def work(number: int) -> None:
        page = mmap.mmap(-1, STREAM_BYTES)
        while (not read[number] or run.goes_on(until)) and (place := turn.next()) is not None:
            read[number] += os.preadv(run.opened, [page], place * STREAM_BYTES)

    _in_threads(run, STREAMS, work)
    return sum(read) / (time.monotonic() - begin)


def _read_at_random(run: _Run, depth: int) -> DepthPoint:
    blocks = run.size_bytes // BLOCK_BYTES
    times: list[list[float]] = [[] for _number in range(depth)]
    begin = time.monotonic()
    until = begin + run.seconds

    def work(number: int) -> None:
        choose = random.Random(number)
        page = mmap.mmap(-1, BLOCK_BYTES)
        own = times[number]
        while not own or run.goes_on(until):
            place = choose.randrange(blocks) * BLOCK_BYTES
            started = time.perf_counter()
            os.preadv(run.opened, [page], place)
            own.append((time.perf_counter() - started) * 1000)

    _in_threads(run, depth, work)
    took = time.monotonic() - begin
    every = [one for own in times for one in own]
    if not every:
        raise ProbeError(f"no read completed in {duration(took)}")
    return DepthPoint(
        depth=depth,
        iops=len(every) / took,
        mean_ms=statistics.fmean(every),
        p99_ms=percentile(sorted(every), 0.99),
    )


def _sync(run: _Run) -> list[float]:
    """Write 8 kB and sync them, again and again, over what is already written."""
    page = mmap.mmap(-1, BLOCK_BYTES)
    page.write(os.urandom(BLOCK_BYTES))
    places = min(run.size_bytes, _SYNC_BYTES) // BLOCK_BYTES
    times: list[float] = []
    until = time.monotonic() + run.seconds
    while not times or run.goes_on(until):
        started = time.perf_counter()
        _write_whole(run.opened, memoryview(page), len(times) % places * BLOCK_BYTES)
        os.fdatasync(run.opened)
        times.append((time.perf_counter() - started) * 1000)
    return times


# ---- helpers


class _Turns:
    """Hands out positions in order to many threads, once or cyclically."""

    def __init__(self, count: int, *, again: bool = False) -> None:
        self.taken = 0
        self._count = count
        self._again = again
        self._lock = threading.Lock()

    def next(self) -> int | None:
        with self._lock:
            if self.taken >= self._count and not self._again:
                return None
            self.taken += 1
            return (self.taken - 1) % self._count


def _random_bytes() -> memoryview:
    """Return bytes that do not compress, aligned to a page as direct I/O requires."""
    area = mmap.mmap(-1, _RANDOM_BYTES + STREAM_BYTES)
    for _chunk in range(len(area) // STREAM_BYTES):
        area.write(os.urandom(STREAM_BYTES))
    return memoryview(area)


def _write_whole(opened: int, piece: memoryview, place: int) -> None:
    written = os.pwritev(opened, [piece], place)
    if written != len(piece):
        raise ProbeError("the device is full: a write was cut short")


def _in_threads(run: _Run, count: int, work: Callable[[int], None]) -> None:
    """Run work in threads until all have ended; an exception in one of them ends them all."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)
            run.stop.set()

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:  # Ctrl-C: no thread may use the file once it is closed
        run.stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        raise
    if errors:
        raise errors[0]
