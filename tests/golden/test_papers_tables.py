# SPDX-License-Identifier: PostgreSQL
"""The papers' other tables: our tables print the same from the counters.

Where a paper prints rates and no totals, the totals of an invented minute are used, and
what the paper derived from the rates (request size, queue, utilisation) must come out.
"""

import pytest

from pgflash.analyze.cache import flash_cache
from pgflash.analyze.consistency import Span, common
from pgflash.analyze.host import disk_row, host_vmstat
from pgflash.analyze.io import tablespace_row, usage_cells
from pgflash.analyze.load import profile_row
from pgflash.analyze.period import make_period
from pgflash.model.awr import Unit, plain
from pgflash.model.counters import COUNTERS
from pgflash.model.snapshot import Value
from support import papers
from support.periods import Rows, Shelf
from support.printed import middle, span, whole

MINUTE_S = 60.0


def values(cells: tuple[object, ...]) -> list[float | None]:
    found = [plain(cell) for cell in cells]  # type: ignore[arg-type]
    return [value if isinstance(value, (int, float)) else None for value in found]


def assert_printed(value: float | None, printed: Span) -> None:
    assert value is not None
    assert printed.meets(Span(low=value, high=value)), f"{value}, printed {printed}"


# ---- tablespace I/O (004) ---------------------------------------------------------------

TABLESPACES = {
    "random reads": papers.TABLESPACES_004_READ,
    "random writes": papers.TABLESPACES_004_WRITE,
}


def elapsed_of(rows: tuple[tuple[str, ...], ...]) -> Span:
    """Return the time that all of a table's rates agree on."""
    found = common(
        whole(row[total]) / span(row[rate]) for row in rows for total, rate in ((1, 2), (5, 6))
    )
    assert found is not None
    return found


@pytest.mark.parametrize("test", TABLESPACES)
def test_tablespaces_come_out_as_printed(test: str) -> None:
    rows = TABLESPACES[test]
    elapsed_s = middle(elapsed_of(rows))
    for name, reads, reads_per_s, read_ms, blocks, writes, writes_per_s in rows:
        n = middle(whole(reads))
        made = tablespace_row(
            {
                "tablespace": name,
                "reads": int(n),
                "read_bytes": int(n * float(blocks) * 8192),
                "read_time_ms": n * float(read_ms),
                "writes": int(middle(whole(writes))),
            },
            elapsed_s=elapsed_s,
        )
        found = values(made.cells)
        assert made.cells[0] == name
        assert found[1] == n
        assert_printed(found[2], span(reads_per_s))
        assert_printed(found[3], span(read_ms))
        assert_printed(found[4], span(blocks))
        assert found[8] == middle(whole(writes))
        assert_printed(found[9], span(writes_per_s))


def test_both_runs_of_paper_004_took_about_the_15_minutes_it_says() -> None:
    for rows in TABLESPACES.values():
        assert elapsed_of(rows).meets(Span(low=890, high=915))


# ---- I/O by function and file type (004) ------------------------------------------------


@pytest.mark.parametrize("row", papers.FUNCTIONS_004)
def test_direct_reads_come_out_as_printed(row: tuple[str, str, str, str]) -> None:
    _, size, requests_per_s, megabytes_per_s = row
    # Its gigabytes and megabytes are of 1024; the totals give the time.
    elapsed = (span(size) * (1024**3 / 1e9)) / (span(megabytes_per_s) * 1024**2)
    assert elapsed.meets(Span(low=890, high=915))
    elapsed_s = middle(elapsed)
    calls = float(requests_per_s) * elapsed_s
    cells = usage_cells(
        {"read": (calls, float(megabytes_per_s) * 1024**2 * elapsed_s, None)}, elapsed_s=elapsed_s
    )
    read, reads_per_s, read_per_s, read_ms = cells[:4]
    assert_printed((read or 0) / 1024**3, span(size.removesuffix("G")))
    assert_printed(reads_per_s, span(requests_per_s))
    assert_printed((read_per_s or 0) / 1024**2, span(megabytes_per_s))
    assert read_ms is None  # the paper has none


# ---- redo statistics (004) --------------------------------------------------------------


@pytest.mark.parametrize("rows", [papers.REDO_004_DISK, papers.REDO_004_FLASH])
def test_redo_statistics_come_out_as_printed(rows: tuple[tuple[str, ...], ...]) -> None:
    elapsed = common(whole(total) / span(per_s) for _, total, per_s, _ in rows)
    transactions = common(whole(total) / span(each) for _, total, _, each in rows)
    assert elapsed is not None
    assert transactions is not None
    assert elapsed.meets(Span(low=904, high=905))
    for name, total, per_s, per_transaction in rows:
        unit = Unit.BYTES if "size" in name or "wastage" in name else Unit.COUNT
        row = profile_row(
            name,
            middle(whole(total)),
            unit,
            elapsed_s=middle(elapsed),
            transactions=middle(transactions),
        )
        found = values(row.cells)
        assert found[1] == middle(whole(total))
        assert_printed(found[2], span(per_s))
        assert_printed(found[3], span(per_transaction))


def test_the_redo_write_time_of_paper_004_fell_by_60_percent_and_not_by_250() -> None:
    before, after = (
        middle(whole(next(row[1] for row in rows if row[0] == "redo write time")))
        for rows in (papers.REDO_004_DISK, papers.REDO_004_FLASH)
    )
    assert round(100 * (before - after) / before) == 60
    assert round(before / after, 1) == 2.5  # which it calls 250 %


# ---- flash cache (001) ------------------------------------------------------------------


def test_flash_cache_statistics_come_out_under_oracles_names() -> None:
    ours = {oracle_name: name for name, oracle_name in COUNTERS.items() if oracle_name}
    counted = {ours[name]: value for name, value in papers.FLASH_CACHE_001}
    store = Shelf()
    for minute, factor in ((0, 0), (1, 1)):
        cache = {name: value * factor for name, value in counted.items()}
        store.put(minute, {"cache": [{"cache_file": "/flash", "mode": "serve", **cache}]})
    table = flash_cache(make_period(store, 1, 2))
    place = table.index("oracle_name")
    found = {row.cells[place]: row.cells[table.index("total")] for row in table.rows}
    for name, value in papers.FLASH_CACHE_001:
        assert found[name] == value


def test_the_flash_cache_of_paper_001_held_no_more_than_its_size() -> None:
    counted = dict(papers.FLASH_CACHE_001)
    left = counted["flash cache inserts"] - counted["flash cache eviction: invalidated"]
    assert left * 8192 < 175 * 1024**3


# ---- iostat and vmstat (001) ------------------------------------------------------------


IOSTAT_COLUMNS = (
    *("rrqm", "wrqm", "r", "w", "read_mb", "write_mb"),
    *("sectors", "queue", "await", "svctm", "util"),
)


@pytest.mark.parametrize("row", papers.IOSTAT_001, ids=lambda row: row[0])
def test_iostat_comes_out_as_printed(row: tuple[str, ...]) -> None:
    printed = dict(zip(IOSTAT_COLUMNS, (span(text) for text in row[1:]), strict=True))
    rates = {name: middle(one) for name, one in printed.items()}
    requests = (rates["r"] + rates["w"]) * MINUTE_S
    record: dict[str, Value] = {
        "disk": row[0],
        "reads_merged": rates["rrqm"] * MINUTE_S,
        "writes_merged": rates["wrqm"] * MINUTE_S,
        "reads": rates["r"] * MINUTE_S,
        "writes": rates["w"] * MINUTE_S,
        "read_bytes": rates["read_mb"] * MINUTE_S * 2**20,
        "write_bytes": rates["write_mb"] * MINUTE_S * 2**20,
        # A request's time is what it waited for: what iostat calls await, of all requests.
        "read_time_ms": rates["await"] * requests,
        "write_time_ms": 0.0,
        "weighted_time_ms": rates["queue"] * MINUTE_S * 1000,
        "io_time_ms": rates["svctm"] * requests,
    }
    cells = values(disk_row(record, elapsed_s=MINUTE_S).cells)
    assert_printed(cells[1], printed["rrqm"])
    assert_printed(cells[2], printed["wrqm"])
    assert_printed(cells[3], printed["r"])
    assert_printed(cells[4], printed["w"])
    assert_printed((cells[5] or 0) / 2**20, printed["read_mb"])
    assert_printed((cells[6] or 0) / 2**20, printed["write_mb"])
    assert_printed(cells[9], printed["await"])
    # What iostat derived from these, within what their digits allow.
    of_all = printed["r"].low + printed["w"].low, printed["r"].high + printed["w"].high
    both = Span(low=of_all[0], high=of_all[1])
    moved = Span(
        low=printed["read_mb"].low + printed["write_mb"].low,
        high=printed["read_mb"].high + printed["write_mb"].high,
    )
    assert ((moved * 2048) / both).meets(printed["sectors"])
    size_s = Span(low=(cells[7] or 0) / 512, high=(cells[7] or 0) / 512)
    assert ((moved * 2048) / both).meets(size_s)
    assert_printed(cells[8], printed["queue"])
    # Requests under way are requests a second times their time, but for those that were
    # under way when iostat looked.
    assert rates["await"] * (rates["r"] + rates["w"]) / 1000 == pytest.approx(
        rates["queue"], rel=0.03, abs=0.02
    )
    busy = Span(
        low=printed["svctm"].low * both.low / 10, high=printed["svctm"].high * both.high / 10
    )
    assert busy.meets(printed["util"])
    assert busy.meets(Span(low=100 * (cells[12] or 0), high=100 * (cells[12] or 0)))


@pytest.mark.parametrize("row", papers.VMSTAT_001)
def test_vmstat_comes_out_as_printed(row: tuple[int, ...]) -> None:
    r, b, swpd, free, buff, cache, si, so, bi, bo, interrupts, switches, us, sy, idle, wa, st = row
    store = Shelf()
    for minute in (0, 1):
        seconds = minute * MINUTE_S
        sections: dict[str, Rows] = {
            "host_cpu": [
                {
                    "user_s": us * seconds,
                    "nice_s": 0.0,
                    "system_s": sy * seconds,
                    "idle_s": idle * seconds,
                    "iowait_s": wa * seconds,
                    "steal_s": st * seconds,
                }
            ],
            "host_memory": [
                {
                    "page_in_kb": bi * seconds,
                    "page_out_kb": bo * seconds,
                    "swap_in_pages": si * seconds,
                    "swap_out_pages": so * seconds,
                    "interrupts": interrupts * seconds,
                    "context_switches": switches * seconds,
                }
            ],
            "host_state": [
                {
                    "running": r,
                    "blocked": b,
                    "swap_bytes": 1024 * 2**20,
                    "swap_free_bytes": 1024 * (2**20 - swpd),
                    "free_bytes": 1024 * free,
                    "buffers_bytes": 1024 * buff,
                    "cached_bytes": 1024 * cache,
                }
            ],
        }
        store.put(minute, sections)
    table = host_vmstat(make_period(store, 1, 2))
    found = dict(zip((c.name for c in table.columns), values(table.rows[0].cells), strict=True))
    assert (found["r"], found["b"]) == (r, b)
    for name, printed in (("swpd", swpd), ("free", free), ("buff", buff), ("cache", cache)):
        assert found[name] == 1024 * printed
    assert found["bi"] == pytest.approx(1024 * bi)
    assert found["bo"] == pytest.approx(1024 * bo)
    assert (found["in"], found["cs"]) == (interrupts, switches)
    # Its percentages were rounded each by itself, and come to 98 to 100.
    sum_printed = us + sy + idle + wa + st
    assert 98 <= sum_printed <= 100
    for name, printed in (("us", us), ("sy", sy), ("id", idle), ("wa", wa), ("st", st)):
        assert found[name] == pytest.approx(printed / sum_printed)
        assert round(100 * (found[name] or 0)) in (printed, printed + 1)
