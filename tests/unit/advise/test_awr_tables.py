# SPDX-License-Identifier: PostgreSQL
"""Tables are read from Oracle's texts as they were printed, however many lines a row has."""

import pytest

from pgflash.advise.awr_tables import read_awr
from support.awr_reports import EVENTS_11, REPORT_10, SEGMENTS_19, TOP_11


def test_a_row_of_two_lines_is_one_row() -> None:
    (table,), _words = read_awr(SEGMENTS_19)
    assert table.title == "Segments by Physical Reads"
    assert table.heads[:5] == (
        "Owner",
        "Tablespace Name",
        "Object Name",
        "Subobject Name",
        "Obj. Type",
    )
    assert table.heads[-2:] == ("Physical Reads", "%Total")
    owner, space, name, _part, kind, _number, _data_number, reads, share = table.rows[1]
    assert (owner, space, name, kind) == ("SHOP", "INDX", "ORDERS_PK", "INDEX")
    assert (reads, share) == ("216,000", "10.00")
    assert len(table.rows) == 2


def test_a_title_is_what_stands_above_a_table_or_is_underlined() -> None:
    tables, _words = read_awr(TOP_11 + EVENTS_11)
    assert [table.title for table in tables] == [
        "Top 5 Timed Foreground Events",
        "Foreground Wait Events",
        "Background Wait Events",
    ]
    assert tables[0].heads[:4] == ("Event", "Waits", "Time(s)", "Avg wait (ms)")


def test_an_underlined_title_beside_heads_is_none_of_them() -> None:
    tables, _words = read_awr(REPORT_10)
    top = next(table for table in tables if table.title.startswith("Top 5 Timed Events"))
    assert top.heads[0] == "Event"
    assert top.heads[4] == "%Total Call Time"


def test_a_page_of_sqlplus_ends_no_table() -> None:
    line = "log file sync                   360,000"
    broken = EVENTS_11.replace(line, f"\n\nOUTPUT\n{'-' * 80}\n{line}")
    broken = broken.replace("\n\n\nOUTPUT", "\n\nOUTPUT")
    assert read_awr(broken)[0] == read_awr(EVENTS_11)[0]


def test_a_text_report_that_a_page_shows_is_read_as_text() -> None:
    page = f"<html><body><pre>WORKLOAD\n{TOP_11}</pre></body></html>"
    assert read_awr(page)[0] == read_awr(TOP_11)[0]


@pytest.mark.parametrize("between", ["\t", "  ", " | "])
def test_what_was_pasted_ends_where_no_row_follows(between: str) -> None:
    lines = [
        between.join(("Event", "Waits", "%Time -outs", "Total Wait Time (s)", "% DB time")),
        between.join(("log file switch (private strand flush incomplete)", "5", "", "2", ".1")),
        between.join(("gc cr block 2-way", "1,000", "50", "1", ".0.")),
        "Figure 4: 10 wait events of 3 tests",
        between.join(("log file sync", "5", "0", "2", ".1")),
    ]
    (table,), _words = read_awr("\n".join(lines))
    assert table.pasted
    rows = [
        {head: cell for head, cell in zip(table.heads, row, strict=True) if cell}
        for row in table.rows
    ]
    assert rows == [
        {
            "Event": "log file switch (private strand flush incomplete)",
            "Waits": "5",
            "Total Wait Time (s)": "2",
            "% DB time": ".1",
        },
        {
            "Event": "gc cr block 2-way",
            "Waits": "1,000",
            "%Time-outs": "50",
            "Total Wait Time (s)": "1",
            "% DB time": ".0",
        },
    ]
