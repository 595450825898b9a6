# SPDX-License-Identifier: PostgreSQL
"""Segments: relations by reads, read time, writes, and blocks in the flash cache.

Each snapshot keeps the relations with the most requests since the previous one, under their names
at that time, and the rest in one row; a relation's forks are added up here.
"""

from collections.abc import Mapping, Sequence

from pgflash.analyze.grid import ROWS_MAX, RowsMax, figure, missing, ratio, text
from pgflash.analyze.parts import reads_source
from pgflash.analyze.period import Period
from pgflash.analyze.sections import number
from pgflash.model.awr import Cell, Column, ReportTable, Row, RowMark, Unit
from pgflash.model.snapshot import Value

#: In place of a name, of the row for the relations without one of their own.
REST = ""

_NAMES = (
    text("relation", "Relation"),
    text("database", "Database"),
    text("tablespace", "Tablespace"),
    text("kind", "Kind"),
)
_KINDS = {
    "r": "table",
    "i": "index",
    "t": "TOAST table",
    "m": "materialized view",
    "S": "sequence",
}

Sums = dict[str, float]


def is_rest(record: Mapping[str, Value]) -> bool:
    """Tell whether a record is the sum of the relations without one of their own.

    A table may be named "other", but has a schema.
    """
    return record.get("relation") == "other" and record.get("schema") is None


def relation_name(record: Mapping[str, Value]) -> str:
    """Return the usual name of a relation, or REST."""
    if is_rest(record):
        return REST
    name, schema = str(record.get("relation")), record.get("schema")
    return name if schema in (None, "public") else f"{schema}.{name}"


def relations(period: Period) -> dict[tuple[str, str, str, str], Sums]:
    """Return the sums of each relation, by name, database, tablespace and kind."""
    found: dict[tuple[str, str, str, str], Sums] = {}
    for record in period.records("relations"):
        key = (
            relation_name(record),
            str(record.get("database") or ""),
            str(record.get("tablespace") or ""),
            _KINDS.get(str(record.get("relkind")), str(record.get("relkind") or "")),
        )
        sums = found.setdefault(key, {})
        for column, value in record.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                sums[column] = sums.get(column, 0) + value
    return found


def segments_reads(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the relations with the most reads."""
    own = any("reads" in sums for sums in relations(period).values())
    if not own:
        stock = (
            figure("blocks_read", "Blocks read", Unit.COUNT),
            figure("share", "% of all", Unit.SHARE),
            figure("per_s", "Blocks/s", Unit.PER_SECOND),
            figure("hit_share", "Found in shared_buffers", Unit.SHARE),
        )
        return _ranking(
            period,
            "segments-reads",
            "Segments by physical reads",
            stock,
            measure="blocks_read",
            rows_max=rows_max,
            note="Blocks that were not in shared_buffers, in the connected database.",
        )
    told = reads_source(period)
    columns = (
        figure("reads", "Reads", Unit.COUNT),
        figure("share", "% of all", Unit.SHARE),
        figure("per_s", "Reads/s", Unit.PER_SECOND),
        figure("read_bytes", "Read", Unit.BYTES),
        figure("disk_reads", "From disk", Unit.COUNT, told),
        figure("page_cache_reads", "From the page cache", Unit.COUNT, told),
        figure("flash_reads", "From flash", Unit.COUNT),
        figure("read_ms", "Average read", Unit.MILLISECONDS),
    )
    return _ranking(
        period,
        "segments-reads",
        "Segments by physical reads",
        columns,
        measure="reads",
        rows_max=rows_max,
    )


def segments_read_time(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the relations with the longest read waits."""
    columns = (
        figure("read_time_ms", "Read time", Unit.MILLISECONDS),
        figure("share", "% of all", Unit.SHARE),
        figure("reads", "Reads", Unit.COUNT),
        figure("read_ms", "Average read", Unit.MILLISECONDS),
        figure("disk_read_ms", "Average disk read", Unit.MILLISECONDS, reads_source(period)),
        figure("flash_read_ms", "Average flash read", Unit.MILLISECONDS),
    )
    return _ranking(
        period,
        "segments-read-time",
        "Segments by read time",
        columns,
        measure="read_time_ms",
        rows_max=rows_max,
    )


def segments_writes(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the relations with the most writes."""
    columns = (
        figure("writes", "Writes", Unit.COUNT),
        figure("share", "% of all", Unit.SHARE),
        figure("per_s", "Writes/s", Unit.PER_SECOND),
        figure("write_bytes", "Written", Unit.BYTES),
        figure("write_ms", "Average write", Unit.MILLISECONDS),
        figure("extends", "Extensions", Unit.COUNT),
        figure("extend_bytes", "Grown by", Unit.BYTES),
    )
    return _ranking(
        period,
        "segments-writes",
        "Segments by writes",
        columns,
        measure="writes",
        rows_max=rows_max,
    )


def segments_logical_reads(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the relations of which most blocks were looked up."""
    title = "Segments by logical reads"
    columns = (
        text("relation", "Relation"),
        text("database", "Database"),
        text("kind", "Kind"),
        figure("looked_up", "Blocks looked up", Unit.COUNT),
        figure("share", "% of all", Unit.SHARE),
        figure("per_s", "Blocks/s", Unit.PER_SECOND),
        figure("blocks_read", "Not in shared_buffers", Unit.COUNT),
        figure("hit_share", "Found in shared_buffers", Unit.SHARE),
        figure("seq_scans", "Sequential scans", Unit.COUNT),
        figure("index_scans", "Index scans", Unit.COUNT),
    )
    found = _looked_up(period)
    if not found:
        reason = period.missing_reason("relation_stats") or "There were none."
        return missing("segments-logical-reads", title, columns, reason)
    total = sum(sums["looked_up"] for sums in found.values())
    named = sorted(
        (item for item in found.items() if item[0][0] != REST),
        key=lambda item: (-item[1]["looked_up"], item[0]),
    )
    top = named[:rows_max]
    others = [sums for key, sums in found.items() if key[0] == REST]
    others += [sums for _, sums in named[len(top) :]]

    def cells(sums: Sums) -> tuple[Cell, ...]:
        looked_up, hit = sums["looked_up"], sums.get("blocks_hit", 0)
        return (
            looked_up,
            ratio(looked_up, total),
            ratio(looked_up, period.elapsed_s),
            max(looked_up - hit, 0),
            ratio(hit, looked_up),
            sums.get("seq_scans"),
            sums.get("index_scans"),
        )

    rows = [Row(cells=(*key, *cells(sums))) for key, sums in top]
    if others:
        rows.append(Row(cells=("all others", "", "", *cells(_sum(others))), mark=RowMark.REST))
    everything = cells(_sum(list(found.values())))
    rows.append(Row(cells=("all", "", "", *everything), mark=RowMark.TOTAL))
    return ReportTable(
        id="segments-logical-reads",
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=("relation", "database", "kind"),
        measure="looked_up",
        note="Of the database that stores the snapshots: counts of other databases are not "
        "visible from it.",
    )


def _looked_up(period: Period) -> dict[tuple[str, str, str], Sums]:
    """Return the blocks looked up, by relation, database and kind.

    Snapshots of older versions have them of a client only, with the relations.
    """
    records = period.records("relation_stats") or period.records("relations")
    found: dict[tuple[str, str, str], Sums] = {}
    for record in records:
        if "blocks_hit" not in record:
            continue
        kind = _KINDS.get(str(record.get("relkind")), str(record.get("relkind") or ""))
        sums = found.setdefault(
            (relation_name(record), str(record.get("database") or ""), kind), {}
        )
        read = number(record.get("blocks_read")) + number(record.get("blocks_hit"))
        looked_up = number(record.get("blocks_looked_up")) or read
        sums["looked_up"] = sums.get("looked_up", 0) + looked_up
        for column in ("blocks_hit", "seq_scans", "index_scans"):
            if record.get(column) is not None:
                sums[column] = sums.get(column, 0) + number(record.get(column))
    return {key: sums for key, sums in found.items() if sums["looked_up"]}


def segments_cached(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the relations with the most blocks in the flash cache at the end."""
    columns = (
        text("relation", "Relation"),
        text("database", "Database"),
        text("kind", "Kind"),
        figure("cached_blocks", "Cached blocks", Unit.COUNT),
        figure("share", "% of the listed", Unit.SHARE),
        text("policy", "Policy"),
    )
    title = "Segments by blocks in the flash cache"
    records = [r for r in period.gauge("cache_relations") if number(r.get("cached_blocks")) > 0]
    if not records:
        reason = period.missing_reason("cache_relations") or "The flash cache held no blocks."
        return missing("segments-cached", title, columns, reason)
    sums: dict[tuple[str, str, str, str], float] = {}
    for record in records:
        key = (
            relation_name(record),
            str(record.get("database") or ""),
            _KINDS.get(str(record.get("relkind")), str(record.get("relkind") or "")),
            str(record.get("policy") or ""),
        )
        sums[key] = sums.get(key, 0) + number(record.get("cached_blocks"))
    total = sum(sums.values())
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    rows = [
        Row(cells=(name, database, kind, int(blocks), ratio(blocks, total), policy))
        for (name, database, kind, policy), blocks in ranked[:rows_max]
    ]
    rest = ranked[len(rows) :]
    if rest:
        blocks = sum(value for _, value in rest)
        cells = (f"{len(rest)} others", "", "", int(blocks), ratio(blocks, total), "")
        rows.append(Row(cells=cells, mark=RowMark.REST))
    return ReportTable(
        id="segments-cached",
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=("relation", "database", "kind"),
        measure="cached_blocks",
        note="As of the end of the period.",
    )


def _ranking(
    period: Period,
    table_id: str,
    title: str,
    columns: Sequence[Column],
    *,
    measure: str,
    rows_max: RowsMax,
    note: str = "",
) -> ReportTable:
    """Return the relations with the most of MEASURE; the sum of the others; the total."""
    columns = (*_NAMES, *columns)
    found = {key: sums for key, sums in relations(period).items() if sums.get(measure)}
    if not found:
        reason = period.missing_reason("relations")
        counted = any(measure in sums for sums in relations(period).values())
        if not reason:
            reason = "There were none." if counted else "Only the extension pgflash counts this."
        return missing(table_id, title, columns, reason)
    total = sum(sums[measure] for sums in found.values())
    named = sorted(
        (item for item in found.items() if item[0][0] != REST),
        key=lambda item: (-item[1][measure], item[0]),
    )
    others = [sums for key, sums in found.items() if key[0] == REST]
    top = named[:rows_max]
    others += [sums for _, sums in named[len(top) :]]
    rows = [
        Row(cells=(*key, *_cells(columns, sums, total, measure, period.elapsed_s)))
        for key, sums in top
    ]
    if others:
        cells = _cells(columns, _sum(others), total, measure, period.elapsed_s)
        rows.append(Row(cells=("all others", "", "", "", *cells), mark=RowMark.REST))
    everything = _cells(columns, _sum(list(found.values())), total, measure, period.elapsed_s)
    rows.append(Row(cells=("all", "", "", "", *everything), mark=RowMark.TOTAL))
    return ReportTable(
        id=table_id,
        title=title,
        columns=tuple(columns),
        rows=tuple(rows),
        key=("relation", "database", "kind"),
        measure=measure,
        note=note,
    )


def _cells(
    columns: Sequence[Column], sums: Sums, total: float, measure: str, elapsed_s: float
) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for column in columns[len(_NAMES) :]:
        if column.name == "share":
            cells.append(ratio(sums.get(measure, 0), total))
        elif column.name == "per_s":
            cells.append(ratio(sums.get(measure, 0), elapsed_s))
        elif column.name == "hit_share":
            hit, read = sums.get("blocks_hit", 0), sums.get("blocks_read", 0)
            cells.append(ratio(hit, hit + read))
        elif column.name.endswith("_ms") and column.name != "read_time_ms":
            what = column.name.removesuffix("_ms")
            cells.append(ratio(sums.get(f"{what}_time_ms", 0), sums.get(f"{what}s", 0)))
        else:
            cells.append(sums.get(column.name, 0))
    return tuple(cells)


def _sum(several: Sequence[Sums]) -> Sums:
    total: Sums = {}
    for sums in several:
        for column, value in sums.items():
            total[column] = total.get(column, 0) + value
    return total
