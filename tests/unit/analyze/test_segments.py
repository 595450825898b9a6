# SPDX-License-Identifier: PostgreSQL
"""Rankings of relations, and the row of those that have none of their own."""

from collections.abc import Mapping

from pgflash.analyze import Period, make_period, make_report
from pgflash.analyze.segments import segments_logical_reads, segments_reads
from pgflash.model.awr import ReportTable, RowMark
from pgflash.model.snapshot import Value
from support.periods import Rows, Shelf

#: A table that is named like the row of the rest, which alone has no schema.
NAMED_OTHER: Mapping[str, Value] = {
    "database": "shop",
    "schema": "public",
    "relation": "other",
    "relkind": "r",
}
STOCK = {**NAMED_OTHER, "relation": "stock"}
REST: Mapping[str, Value] = {"relation": "other"}


def period_of(section: str, rows: Rows) -> Period:
    """Return ten minutes in which the numbers of these rows were counted."""
    store = Shelf()
    store.put(0, {})
    store.put(10, {section: rows})
    return make_period(store, 1, 2)


def marked(table: ReportTable, column: str) -> list[tuple[object, object, RowMark]]:
    """Return each row's relation, one of its numbers, and its mark."""
    place = table.index(column)
    return [(row.cells[0], row.cells[place], row.mark) for row in table.rows]


def test_a_table_named_other_has_a_row_and_is_not_the_rest() -> None:
    read = period_of(
        "relations",
        [{**NAMED_OTHER, "reads": 900}, {**STOCK, "reads": 100}, {**REST, "reads": 50}],
    )
    expected = [
        ("other", 900, RowMark.PLAIN),
        ("stock", 100, RowMark.PLAIN),
        ("all others", 50, RowMark.REST),
        ("all", 1_050, RowMark.TOTAL),
    ]
    assert marked(segments_reads(read), "reads") == expected
    looked_up = period_of(
        "relation_stats",
        [
            {**record, "blocks_looked_up": count, "blocks_hit": 0}
            for record, count in ((NAMED_OTHER, 900), (STOCK, 100), (REST, 50))
        ],
    )
    assert marked(segments_logical_reads(looked_up), "looked_up") == expected


def test_a_table_named_other_may_be_the_one_that_is_waited_for() -> None:
    def at(share: int) -> dict[str, Rows]:
        read = {"reads": 1_000 * share, "disk_read_time_ms": 10_000.0 * share}
        io = {"backend_type": "client backend", "file_class": "data", "operation": "read"}
        return {
            "database": [{"datid": "5", "xact_commit": share, "active_time": 12_000.0 * share}],
            "io": [
                {
                    **io,
                    "source": "disk",
                    "calls": 1_000 * share,
                    "bytes": 8_192_000 * share,
                    "time_ms": 10_000.0 * share,
                }
            ],
            "relations": [{**NAMED_OTHER, **read}] if share else [],
        }

    store = Shelf()
    store.put(0, at(0))
    store.put(10, at(1))
    (finding,) = [
        one for one in make_report(make_period(store, 1, 2)).findings if one.rule == "disk-reads"
    ]
    assert "other accounted for 100 % of the time of reads from disk" in finding.evidence
