# SPDX-License-Identifier: PostgreSQL
"""Predictions from the papers' own AWR extracts, beside what the papers measured.

The input is the baseline's extract, the number of disks and cores, and what a baseline cannot show:
the hit ratio of the cache, and the hot objects' share of reads.  The latter come from the paper's
later extracts, and the note of each row says so.  The output is a throughput relative to the
baseline's; it is compared with the paper's count of commits or its elapsed time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from pgflash.advise.awr_tables import AwrTable
from pgflash.advise.media import DISK, FLASH
from pgflash.advise.model import SECOND_THREAD, Model, Target
from pgflash.advise.oracle import work_of_extract
from pgflash.advise.work import Work
from pgflash.model.advice import PredictionCheck, PredictionChecks
from pgflash_lab.model.paper import PaperExhibit, printed_number, read_paper

_DISK_READ = "db file sequential read"
_SYNC = "log file sync"


def predict_papers() -> PredictionChecks:
    """Return a row for each approach of papers 000, 001 and 002."""
    return PredictionChecks(rows=(*_paper_000(), *_paper_001(), *_paper_002()))


def _paper_000() -> Iterator[PredictionCheck]:
    """Return the four ways: 24 disks, 20 cores with two threads each, 100 users."""
    paper = read_paper("000")
    work = _work("000", [paper.exhibit("fig-3")])
    # A figure from its cost table: reads and writes a second; the number of reads is known.
    requests = paper.exhibit("fig-15").number("SQL IOPS during OLTP Test", "HDD") or 0.0
    work = replace(work, writes=max(requests * work.elapsed_s - work.reads.count, 0.0))
    disks = replace(DISK, servers=24, copies=2, name="24 disks", source="24 disks, RAID 10")
    model = Model(work, array=disks, flash=FLASH, cores=20 * (1 + SECOND_THREAD))
    cache, redo, hot, everything = (paper.exhibit(f"fig-{n}") for n in (4, 7, 9, 11))
    slow, fast = _mean_ms(redo), _flash_mean_ms(redo)
    # Which mixture of flash and disk has the measured mean?
    share = (slow - _mean_ms(hot)) / (slow - fast)
    targets = (
        (cache, Target(name="flash-cache", title="", cached=_hits(cache)), "hit ratio as measured"),
        (
            redo,
            Target(name="wal-on-flash", title="", wal=True, cached=_hits(redo)),
            "with the cache that was still on",
        ),
        (
            hot,
            Target(name="hot-objects", title="", wal=True, reads=share, writes=share),
            "share of the reads by their measured mean",
        ),
        (
            everything,
            Target(name="all-on-flash", title="", wal=True, temp=True, reads=1.0, writes=1.0),
            "20 cores, a second thread worth a quarter",
        ),
    )
    baseline = work.transactions
    for table, target, note in targets:
        found = model.predict(target, horizon_s=1e9)
        yield PredictionCheck(
            case=f"000-{target.name}",
            title=f"000, {table.title.rpartition(', ')[2]}",
            predicted=found.ratio,
            measured=_waits(table, _SYNC) / baseline,
            note=f"{note}; then limited by {found.limit}",
        )


def _paper_001() -> Iterator[PredictionCheck]:
    """Return the flash cache; the measured time comes from iostat's reads a second."""
    paper = read_paper("001")
    disk, flash = paper.exhibit("events-disk"), paper.exhibit("events-flash")
    reads_s = 1685.6  # iostat with hard drives, sdd, r/s
    work = _work("001", [disk], elapsed_s=_waits(disk, _DISK_READ) / reads_s)
    hits = _waits(flash, "db flash cache single block phys read")
    target = Target(name="flash-cache", title="", cached=hits / (hits + _waits(flash, _DISK_READ)))
    found = Model(work, array=DISK, flash=FLASH, cores=2 * 20.0).predict(target)
    yield PredictionCheck(
        case="001-flash-cache",
        title="001, flash cache",
        predicted=found.ratio,
        measured=71.23 / 58.31,
        note="an upper bound: its users think, their number is not printed, and its second "
        "extract has 11 times the reads for 1.2 times the transactions a second",
    )


def _paper_002() -> Iterator[PredictionCheck]:
    """Return everything on flash: 22 queries on 16 cores, measured by elapsed time."""
    paper = read_paper("002")
    # The heads of its wait classes are shifted by one: the last column is active sessions.
    classes = msgspec.structs.replace(
        paper.exhibit("table-3"), columns=read_paper("000").exhibit("fig-3").columns
    )
    work = _work("002", [paper.exhibit("table-2"), classes])
    target = Target(name="all-on-flash", title="", wal=True, temp=True, reads=1.0, writes=1.0)
    found = Model(work, array=DISK, flash=FLASH, cores=16.0).predict(target)
    yield PredictionCheck(
        case="002-all-on-flash",
        title="002, everything on flash",
        predicted=found.ratio,
        measured=2.5,
        note=f"22 queries; then limited by {found.limit}",
    )


def _work(paper: str, tables: Sequence[PaperExhibit], *, elapsed_s: float | None = None) -> Work:
    words = "" if elapsed_s is None else f"Elapsed: {round(elapsed_s / 60, 4)} (mins)"
    printed = [AwrTable(heads=table.columns, rows=table.rows) for table in tables]
    return work_of_extract(printed, words, name=f"of paper {paper}")


def _waits(table: PaperExhibit, event: str) -> float:
    return printed_number(table.row(event)[1]) or 0.0


def _mean_ms(table: PaperExhibit) -> float:
    return printed_number(table.row(_DISK_READ)[3]) or 0.0


def _flash_mean_ms(table: PaperExhibit) -> float:
    return printed_number(table.row("db flash cache single block physical read")[3]) or 0.0


def _hits(table: PaperExhibit) -> float:
    served = _waits(table, "db flash cache single block physical read")
    return served / (served + _waits(table, _DISK_READ))
