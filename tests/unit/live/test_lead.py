# SPDX-License-Identifier: PostgreSQL
"""Which server leads, and since when, in the words of the overview."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pgflash.live.lead import Lead, follow, who_leads, words
from pgflash.model.fleet import ServerFacts

START = datetime(2026, 11, 22, 10, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def watched(*seen: tuple[str, ...], since: datetime | None = None) -> str:
    """Return what is said a minute after the last look; the looks are a minute apart."""
    lead = Lead()
    for minute, leaders in enumerate(seen):
        lead = follow(lead, leaders, at(minute), since=since)
    return words(lead, at(len(seen)))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([("a",)], "a leads since before 10:00:00 UTC."),
        ([("a",), ("a",)], "a leads since before 10:00:00 UTC."),
        ([("a",), ("b",)], "b leads since 10:01:00 UTC; before, a did."),
        ([("a",), (), ()], "Nobody is seen to lead since 10:01:00 UTC; a did before."),
        ([("a",), (), ("b",)], "b leads since 10:02:00 UTC; before, a did."),
        # It did not answer for a moment.
        ([("a",), (), ("a",)], "a leads since before 10:00:00 UTC."),
        ([("a",), ("b",), (), ("b",)], "b leads since 10:01:00 UTC; before, a did."),
        ([("a",), ("a", "b")], "a and b accept writes at the same time."),
        ([("a",), ("a", "b"), ("b",)], "b leads since 10:02:00 UTC; before, a did."),
        ([(), ("a",)], "a leads since before 10:01:00 UTC."),
        ([()], "Nobody is seen to lead since 10:00:00 UTC."),
        ([], ""),
    ],
)
def test_who_leads_is_said_with_what_is_known_of_since_when(
    seen: list[tuple[str, ...]], said: str
) -> None:
    assert watched(*seen) == said


def test_patronis_history_knows_what_was_before_anybody_watched() -> None:
    assert watched(("a",), since=at(-60)) == "a leads since 09:00:00 UTC."
    lead = follow(follow(Lead(), ["a"], at(0)), ["a"], at(1), since=at(-60))
    assert words(lead, at(2)) == "a leads since 09:00:00 UTC."


def test_a_day_ago_is_said_with_the_day() -> None:
    lead = follow(Lead(), ["a"], at(0), since=at(-60 * 24 * 3))
    assert words(lead, at(0)) == "a leads since 2026-11-19 10:00:00 UTC."


def test_servers_of_different_clusters_have_no_leader() -> None:
    primary = ServerFacts(in_recovery=False, system=1)
    standby = ServerFacts(in_recovery=True, system=1)
    other = ServerFacts(in_recovery=False, system=2)
    assert who_leads(["a", "b"], [primary, standby]) == ("a",)
    assert who_leads(["a", "b"], [primary, other]) is None
    assert who_leads(["a", "b"], [ServerFacts(problem="down"), standby]) == ()


def test_a_server_that_does_not_answer_leads_until_another_one_does() -> None:
    standby = ServerFacts(system=1, in_recovery=True)
    primary = ServerFacts(system=1, in_recovery=False)
    silent = replace(primary, problem="No answer since 10:00:00 UTC")
    assert who_leads(["a", "b"], [silent, standby]) == ("a",)
    assert who_leads(["a", "b"], [silent, primary]) == ("b",)
    assert who_leads(["a", "b"], [silent, silent]) == ("a", "b")
