# SPDX-License-Identifier: PostgreSQL
"""An impossible value in a stored snapshot is left out and reported: it never costs the report."""

import dataclasses
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgflash.analyze import make_period, make_report
from pgflash.analyze.findings import IMPOSSIBLE
from pgflash.errors import PgflashError
from pgflash.model.awr import AwrReport
from pgflash.model.snapshot import Section, SectionKind, SnapshotError
from pgflash.report.awr import FORMS, render
from pgflash.store.section import decode_section, possible
from support.busy import busy_store

IMPOSSIBLE_VALUES: tuple[object, ...] = (
    10**400,
    2**64 + 1,
    float("nan"),
    float("inf"),
    {"a": 1},
    [[{}]],
)
ODD_VALUES: tuple[object, ...] = (
    "yesterday",
    "",
    -1,
    -1e300,
    None,
    True,
    [],
    [["x"]],
    [1, None],
    0.5,
    2**63,
)
TIMES: tuple[object, ...] = (
    "yesterday",
    "",
    5,
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59+14:00",
    "9999-12-31T23:59:59-14:00",
)


def report_with(name: str, column: int, row: int, value: object) -> AwrReport:
    """Return the report whose last snapshot has this value in this place."""
    store = busy_store()
    heads = store.list()
    section = store.sections(heads[-1].id)[name]
    rows = [list(one) for one in section.rows]
    rows[row % len(rows)][column % len(section.columns)] = value  # type: ignore[call-overload]
    changed = dataclasses.replace(section, rows=tuple(map(tuple, rows)))
    store.replace(heads[-1].id, possible(changed))
    return make_report(make_period(store, heads[0].id, heads[-1].id))


SECTIONS = sorted(
    name for name, one in busy_store().sections(busy_store().list()[-1].id).items() if one.rows
)


@settings(max_examples=60)
@given(
    st.sampled_from(SECTIONS),
    st.integers(0, 30),
    st.integers(0, 5),
    st.sampled_from((*IMPOSSIBLE_VALUES, *ODD_VALUES, *TIMES)),
)
def test_any_value_in_any_place_leaves_a_report_or_one_message(
    name: str, column: int, row: int, value: object
) -> None:
    try:
        made = report_with(name, column, row, value)
    except PgflashError:  # one message, such as that counters fell, over a restart
        return
    said = [one for one in made.findings if one.rule == IMPOSSIBLE]
    # repr: a list that holds such a value is left out as well, and nan is not equal to itself.
    if repr(value) in map(repr, IMPOSSIBLE_VALUES):
        assert f"{name}." in said[0].sentence
        assert made.findings[0] == said[0]
    for form in FORMS:
        assert render(made, form)


@pytest.mark.parametrize("value", TIMES)
def test_a_time_that_is_none_is_named_and_the_minute_left_out(value: object) -> None:
    section = busy_store().sections(3)["samples"]
    made = report_with("samples", section.columns.index("bucket"), 0, value)
    assert "samples.bucket is" in made.findings[0].sentence
    assert "in snapshot 3" in made.findings[0].sentence


@pytest.mark.parametrize("value", TIMES)
def test_a_vacuum_at_a_time_that_is_none_is_named_and_left_out(value: object) -> None:
    section = busy_store().sections(3)["dead_rows"]
    made = report_with("dead_rows", section.columns.index("last_vacuum"), 0, value)
    assert "dead_rows.last_vacuum is" in made.findings[0].sentence
    assert made.table("vacuum").rows


def test_a_statement_s_id_is_a_whole_number_and_nothing_else() -> None:
    section = busy_store().sections(3)["statements"]
    place = section.columns.index("query_id")
    for value in ("yesterday", True, [], [7], 0.5):
        made = report_with("statements", place, 0, value)
        assert f"statements.query_id is {value!r}" in made.findings[0].sentence


def test_a_whole_report_has_no_such_finding() -> None:
    store = busy_store()
    made = make_report(make_period(store, 1, 3))
    assert not [one for one in made.findings if one.rule == IMPOSSIBLE]


def content(**changes: object) -> bytes:
    found = {"columns": ["calls"], "rows": [[1]], **changes}
    return zlib.compress(json.dumps(found).encode())


def test_a_stored_section_comes_back() -> None:
    expected = Section(name="io", kind=SectionKind.COUNTER, columns=("calls",), rows=((1,),))
    assert decode_section("io", "counter", content(), store="s") == expected


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("counter", b"no zlib"),
        ("counter", zlib.compress(b"no json")),
        ("counter", zlib.compress(b"\xff")),
        ("counter", content(columns="calls")),
        ("counter", content(rows=[[1, 2]])),
        ("counter", content(rows=[1])),
        ("counter", zlib.compress(b"[" * 100_000)),
        ("unheard of", content()),
    ],
)
def test_what_is_no_section_is_one_message_that_names_it(kind: str, stored: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"the file is damaged: section io"):
        decode_section("io", kind, stored, store="the file")
