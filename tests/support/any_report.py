# SPDX-License-Identifier: PostgreSQL
"""Hypothesis strategies for arbitrary reports, with the most hostile texts possible."""

from hypothesis import strategies as st

from pgflash.model.awr import (
    AwrReport,
    Cell,
    Column,
    CompareReport,
    Finding,
    Number,
    ReportTable,
    Row,
    RowMark,
    Severity,
    Source,
    Unit,
)
from support.reports import comparison, head

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>&amp;",
    "a|b\\|c`d`**e**_f_[g](javascript:h)![i](j)",
    "\x1b[31mred\x07\x00",
    "line\nfeed\r\nand\ttab",
    "\u202eright to left\u2066",
    "表" * 60,
    "e\u0301" * 40,
    "x" * 250,
    "",
    "–",
    "# head",
    "- item",
    "1. item",
    "~~~",
    "https://example.invalid/?a=b&c=d",
    "@somebody #1",
)

texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
numbers = st.one_of(
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(min_value=0, max_value=1e6),
)
single = st.builds(
    Number, value=numbers, unit=st.sampled_from(Unit), source=st.sampled_from(Source)
)
cells: st.SearchStrategy[Cell] = st.one_of(st.none(), texts, numbers, single)


@st.composite
def tables(draw: st.DrawFn, table_id: str) -> ReportTable:
    """Return any table; one in five is missing."""
    columns = draw(
        st.lists(
            st.builds(
                Column,
                name=texts,
                title=texts,
                unit=st.sampled_from(Unit),
                source=st.one_of(st.none(), st.sampled_from(Source)),
                note=texts,
            ),
            min_size=1,
            max_size=24,
        )
    )
    row = st.builds(
        Row,
        cells=st.tuples(*[cells] * len(columns)),
        source=st.one_of(st.none(), st.sampled_from(Source)),
        mark=st.sampled_from(RowMark),
    )
    missing = draw(st.integers(min_value=0, max_value=4)) == 0
    names = tuple(column.name for column in columns)
    return ReportTable(
        id=table_id,
        title=draw(texts),
        columns=tuple(columns),
        rows=() if missing else tuple(draw(st.lists(row, max_size=4))),
        key=tuple(draw(st.lists(st.sampled_from(names), max_size=3))),
        note=draw(texts),
        missing_reason=draw(texts) if missing else "",
    )


@st.composite
def reports(draw: st.DrawFn) -> AwrReport | CompareReport:
    """Return any report or comparison."""
    ids = draw(
        st.lists(
            st.sampled_from(("top-events", "aas-over-time", "read-latency", "sql-elapsed", "new")),
            unique=True,
            max_size=3,
        )
    )
    finding = st.builds(
        Finding,
        rule=texts,
        severity=st.sampled_from(Severity),
        sentence=texts,
        evidence=st.tuples(texts, texts),
        table=st.one_of(st.sampled_from(ids), texts) if ids else texts,
        advice=texts,
    )
    findings = draw(st.lists(finding, max_size=3))
    found = [draw(tables(one)) for one in ids]
    if draw(st.booleans()):
        return comparison(*found, findings=findings)
    return AwrReport(
        pgflash_version="0.1.0", head=head(), findings=tuple(findings), tables=tuple(found)
    )
