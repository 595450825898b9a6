# SPDX-License-Identifier: PostgreSQL
"""The table of the flash cache: its counters, also under Oracle's names."""

from pgflash.analyze.grid import figure, missing, ratio, text
from pgflash.analyze.period import Period
from pgflash.analyze.sections import number
from pgflash.model.awr import ReportTable, Row, RowMark, Unit
from pgflash.model.counters import COUNTERS, DETAILS
from pgflash.model.words import percent

_COLUMNS = (
    text("name", "Counter"),
    figure("total", "Total", Unit.COUNT),
    figure("per_s", "Per second", Unit.PER_SECOND),
    figure("share", "Of the blocks read", Unit.SHARE, note="Hits, misses, page cache, bypass."),
    text("oracle_name", "Oracle's name", optional=True),
)

#: Every block read from a data file is counted as one of these.
_READS = ("hits", "misses", "page_cache_reads", "bypass_reads")

_SHOWN = (*_READS, *(name for name in COUNTERS if name not in {*_READS, *DETAILS}))


def flash_cache(period: Period) -> ReportTable:
    """Return what the flash cache counted."""
    title = "Flash cache"
    cache = period.record("cache")
    if cache is None or not cache.get("cache_file"):
        reason = (
            "This server has no flash cache (pgflash.cache_file is empty)."
            if cache is not None
            else period.missing_reason("cache") or "Only the extension pgflash counts this."
        )
        return missing("flash-cache", title, _COLUMNS, reason)
    reads = sum(number(cache.get(name)) for name in _READS)
    rows = []
    for name in _SHOWN:
        if name not in cache:
            continue
        count = int(number(cache.get(name)))
        share = ratio(count, reads) if name in _READS else None
        per_s = ratio(count, period.elapsed_s)
        rows.append(Row(cells=(name, count, per_s, share, COUNTERS[name])))
    rows.append(
        Row(
            cells=("blocks read", int(reads), ratio(reads, period.elapsed_s), ratio(reads, reads)),
            mark=RowMark.TOTAL,
        )
    )
    rows = [Row(cells=(*row.cells, "")[: len(_COLUMNS)], mark=row.mark) for row in rows]
    mode = f"The cache was in mode {cache.get('mode')} at the end"
    used, slots = number(cache.get("used_slots")), number(cache.get("slots"))
    full = ratio(used, slots)
    return ReportTable(
        id="flash-cache",
        title=title,
        columns=_COLUMNS,
        rows=tuple(rows),
        key=("name",),
        measure="per_s",
        note=f"{mode}, {percent(full)} full." if full is not None else f"{mode}.",
    )
