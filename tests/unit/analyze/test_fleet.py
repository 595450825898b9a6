# SPDX-License-Identifier: PostgreSQL
"""Servers side by side: lags, settings that differ, and where Patroni and a server disagree."""

import pytest

from pgflash.analyze.fleet import differences, differing, fleet_member, lags
from pgflash.model.fleet import FleetMember, PatroniMember, ServerFacts

PRIMARY = ServerFacts(in_recovery=False, system=1, wal_bytes=1000, timeline=2)
STANDBY = ServerFacts(in_recovery=True, system=1, wal_bytes=900)
SILENT = ServerFacts(problem="could not connect")


def member(facts: ServerFacts, patroni: PatroniMember | None = None, **more: int) -> FleetMember:
    return fleet_member(
        facts,
        name="a",
        address="db1:5432",
        patroni=patroni,
        lag_bytes=more.get("lag_bytes"),
        differs=(),
    )


def test_the_lag_of_a_standby_is_what_it_has_not_replayed() -> None:
    assert lags([PRIMARY, STANDBY, SILENT]) == [None, 100, None]


def test_a_standby_that_was_asked_later_is_not_ahead() -> None:
    later = ServerFacts(in_recovery=True, system=1, wal_bytes=1001)
    assert lags([PRIMARY, later]) == [None, 0]


@pytest.mark.parametrize(
    "others",
    [[], [PRIMARY, PRIMARY], [ServerFacts(in_recovery=False, system=2, wal_bytes=1000)]],
    ids=["no primary", "two primaries", "a primary of another cluster"],
)
def test_without_its_one_primary_a_lag_is_unknown(others: list[ServerFacts]) -> None:
    assert lags([STANDBY, *others])[0] is None


def test_settings_that_are_the_same_everywhere_are_left_out() -> None:
    found = differences({"a": {"x": "1", "y": "1"}, "b": {"x": "1", "y": "2"}})
    assert [(one.name, dict(one.values)) for one in found] == [("y", {"a": "1", "b": "2"})]


def test_a_setting_that_a_member_does_not_have_differs() -> None:
    (found,) = differences({"a": {"x": "1"}, "b": {}})
    assert found.values == {"a": "1", "b": ""}


def test_only_the_member_that_is_not_as_most_others_differs() -> None:
    found = differences({"a": {"x": "1"}, "b": {"x": "1"}, "c": {"x": "2"}})
    assert [differing(name, found) for name in ("a", "b", "c")] == [[], [], ["x"]]


def test_where_no_value_is_usual_all_members_differ() -> None:
    found = differences({"a": {"x": "1"}, "b": {"x": "2"}})
    assert [differing(name, found) for name in ("a", "b")] == [["x"], ["x"]]


def test_a_member_that_did_not_answer_does_not_differ() -> None:
    found = differences({"a": {"x": "1"}, "b": {"x": "2"}})
    assert differing("silent", found) == []


def test_without_patroni_the_role_is_what_the_server_says() -> None:
    assert [member(one).role for one in (PRIMARY, STANDBY, SILENT)] == ["primary", "standby", ""]


def test_what_a_server_does_not_say_is_patronis() -> None:
    patroni = PatroniMember(
        name="a", role="replica", state="stopped", host="db1", port=5432, timeline=4, lag_bytes=7
    )
    row = member(SILENT, patroni)
    assert (row.role, row.state, row.timeline, row.lag_bytes) == ("replica", "stopped", 4, 7)
    assert row.problem == "could not connect"


def test_what_a_server_says_is_preferred_to_patronis() -> None:
    patroni = PatroniMember(name="a", role="leader", state="running", timeline=1)
    assert member(PRIMARY, patroni).timeline == 2


def test_a_leader_has_no_lag() -> None:
    patroni = PatroniMember(name="a", role="leader", state="running", lag_bytes=3)
    assert member(PRIMARY, patroni, lag_bytes=3).lag_bytes is None


@pytest.mark.parametrize(
    ("facts", "role", "problem"),
    [
        (STANDBY, "leader", "Patroni calls it the leader, but it is in recovery"),
        (PRIMARY, "replica", "Patroni calls it replica, but it accepts writes"),
        (PRIMARY, "leader", ""),
        (STANDBY, "replica", ""),
        (STANDBY, "sync_standby", ""),
        (STANDBY, "standby_leader", ""),
    ],
)
def test_a_server_that_is_not_what_patroni_calls_it_says_so(
    facts: ServerFacts, role: str, problem: str
) -> None:
    assert member(facts, PatroniMember(name="a", role=role, state="running")).problem == problem
