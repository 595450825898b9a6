# SPDX-License-Identifier: PostgreSQL
"""The rankings of SQL where statements run inside others (pg_stat_statements.track = all)."""

import pytest

from pgflash.analyze import Period, make_period, make_report
from pgflash.analyze.sql import OUTSIDE
from pgflash.model.awr import plain
from pgflash.model.snapshot import Value
from support.periods import Rows, Shelf

#: A call of a function of 100 s, all of which its statements took.
FUNCTION: dict[str, Value] = {"query_id": 1, "calls": 1, "exec_time_ms": 100_000.0}
INSIDE: list[dict[str, Value]] = [
    {"query_id": n, "toplevel": 0, "calls": 1, "exec_time_ms": 500.0} for n in range(2, 121)
]
REST: dict[str, Value] = {"query_id": None, "calls": 81, "exec_time_ms": 81 * 500.0}


def period(*statements: dict[str, Value]) -> Period:
    """Return ten minutes in which these statements ran, and DB time was 100 s."""
    store = Shelf()
    for after in (0, 1):
        sections: dict[str, Rows] = {
            "database": [{"datid": "5", "xact_commit": after, "active_time": 100_000.0 * after}],
            "statements": [*statements] if after else [],
        }
        store.put(10 * after, sections)
    return make_period(store, 1, 2)


def seconds(of: Period) -> dict[str, object]:
    """Return the elapsed time by statement."""
    table = make_report(of).table("sql-elapsed")
    names = (str(name) for name in table.values("query"))
    return dict(zip(names, map(plain, table.values("total_s")), strict=True))


def test_what_ran_inside_a_statement_is_counted_within_it_alone() -> None:
    whole = period(
        {**FUNCTION, "toplevel": 1},
        *INSIDE,
        {"query_id": None, "toplevel": 1, "calls": 0, "exec_time_ms": 0.0},
        {**REST, "toplevel": 0},
    )
    found = seconds(whole)
    assert found["(text of 1 not known)"] == pytest.approx(100.0)
    assert found["all other statements"] == 0
    assert found[OUTSIDE] == pytest.approx(0.0)
    profile = make_report(whole).table("load-profile")
    executed = dict(zip(profile.values("name"), map(plain, profile.values("total")), strict=True))
    assert executed["statements executed"] == 1


def test_the_rest_of_statements_of_clients_is_counted_where_some_ran_inside_others() -> None:
    found = seconds(
        period(
            {**FUNCTION, "toplevel": 1, "exec_time_ms": 60_000.0},
            {**REST, "toplevel": 1, "exec_time_ms": 30_000.0},
            {**REST, "toplevel": 0},
        )
    )
    assert found[OUTSIDE] == pytest.approx(10.0)
    assert found["all other statements"] == pytest.approx(30.0)


def test_an_older_snapshot_does_not_tell_of_the_rest_where_it_ran() -> None:
    found = seconds(period({**FUNCTION, "toplevel": 1}, {**REST, "toplevel": None}))
    assert found["all other statements"] == pytest.approx(40.5)
