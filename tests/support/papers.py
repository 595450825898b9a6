# SPDX-License-Identifier: PostgreSQL
"""The papers' tables for tests, from the product's own data (pgflash_lab/papers/NNN.toml).

Cells are texts, as printed.  Rows of events: event, waits, seconds, average milliseconds,
percent of DB time, class; rows of classes end with average active sessions.
"""

from collections.abc import Sequence

from pgflash_lab.model.paper import PaperExhibit, printed_number, read_paper

Event = tuple[str, str, str, str, str, str]


def _events(paper: str, table: str) -> tuple[Event, ...]:
    found = []
    for name, waits, total_s, mean_ms, share, last in read_paper(paper).exhibit(table).rows:
        found.append((name, waits, total_s, mean_ms, share, last))
    return tuple(found)


def _some(paper: str, table: str, columns: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    rows = read_paper(paper).exhibit(table).rows
    return tuple(tuple(row[column] for column in columns) for row in rows)


CLASSES_000_3 = _events("000", "fig-3")
EVENTS_000_4 = _events("000", "fig-4")
EVENTS_000_7 = _events("000", "fig-7")
EVENTS_000_9 = _events("000", "fig-9")
EVENTS_000_11 = _events("000", "fig-11")

EVENTS_001_DISK = _events("001", "events-disk")
#: Without the last row, which contradicts itself.
EVENTS_001_FLASH = _events("001", "events-flash")[:-1]
LATCHES_001 = _events("001", "events-flash")[-1]

EVENTS_002_DISK = _events("002", "table-2")
EVENTS_002_FLASH = _events("002", "table-4")


def _with_time(rows: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return the rows with a time: a total of 0 s says nothing about other values."""
    return tuple(row for row in rows if row[2] != "0")


CLASSES_002_DISK = _with_time(_events("002", "table-3"))
CLASSES_002_FLASH = _with_time(_events("002", "table-5"))

#: Tablespace, reads, reads/s, ms, blocks/read, writes, writes/s.
TABLESPACES_004_READ = _some("004", "random-reads", range(7))
TABLESPACES_004_WRITE = _some("004", "random-writes", range(7))

#: Direct reads of data files: where, bytes, requests/s, MB/s.
FUNCTIONS_004 = read_paper("004").exhibit("table-8-3").rows

#: Statistic, total, per second, per transaction; without values that were not counted.
REDO_004_DISK = tuple(row for row in _some("004", "table-8-4", range(4)) if row[1] != "0")
REDO_004_FLASH = _some("004", "table-8-4", (0, 4, 5, 6))

FLASH_CACHE_001 = tuple(
    (name, int(value)) for name, value in read_paper("001").exhibit("flash-cache").rows
)


def _busy(table: PaperExhibit, note: str) -> tuple[tuple[str, ...], ...]:
    """Return the devices with more than one request a second."""
    requests = [sum(printed_number(row[i]) or 0 for i in (3, 4)) for row in table.rows]
    return tuple(
        (f"{row[0]}{note}", *row[1:])
        for row, count in zip(table.rows, requests, strict=True)
        if count > 1
    )


#: Device, rrqm/s, wrqm/s, r/s, w/s, rMB/s, wMB/s, sectors/request, queue, await ms, service ms,
#: percent busy.
IOSTAT_001 = (
    *_busy(read_paper("001").exhibit("iostat-disk"), ""),
    *_busy(read_paper("001").exhibit("iostat-flash"), " flash"),
)

#: With hard drives: r, b, swpd, free, buff, cache, si, so, bi, bo, in, cs, us, sy, id, wa, st.
VMSTAT_001 = tuple(
    tuple(int(cell) for cell in row) for row in read_paper("001").exhibit("vmstat-disk").rows
)
