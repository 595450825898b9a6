# SPDX-License-Identifier: PostgreSQL
"""The rows of the overview: what each server did lately, what it is, and what is the matter."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from pgflash.collect.servers import NamedServer
from pgflash.live.collector import Collector, Status
from pgflash.live.fleet import Member, View
from pgflash.live.lead import Lead
from pgflash.live.ring import Ring
from pgflash.model.fleet import Fleet, FleetMember
from pgflash.web.overview import CHART_S, STEP_S, Row, chart, overview, steps_of

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def ring(*sessions: float | None) -> Ring:
    """Return a ring with a sample for each second from noon on."""
    one = Ring()
    for second, value in enumerate(sessions):
        at = (NOON + timedelta(seconds=second)).isoformat()
        aas = None if value is None else {"CPU": value / 2, "Commit": value / 2}
        sample = {"at": at, "elapsed_s": 1.0, "aas": aas}
        one.append("sample", partial(_is, sample))
        one.append("status", partial(_is, {"state": "live"}))
    return one


def _is(content: object, _number: int) -> object:
    return content


def test_a_chart_has_the_mean_of_each_step() -> None:
    assert STEP_S == 5
    found = steps_of(ring(*[2.0] * 4, 7.0, 1.0))
    assert list(found.values()) == [pytest.approx(3.0), pytest.approx(1.0)]
    assert list(found) == [NOON.timestamp(), NOON.timestamp() + STEP_S]


def test_seconds_in_which_nobody_looked_are_no_idle_ones() -> None:
    assert list(steps_of(ring(None, None, 3.0)).values()) == [3.0]
    assert steps_of(ring(None)) == {}
    assert chart("a", {}, 1.0) == ""


def test_a_chart_ends_with_the_newest_step_and_is_as_long_as_all_others() -> None:
    found = steps_of(ring(*[1.0] * (CHART_S + 100)))
    assert len(found) == CHART_S // STEP_S
    drawn = chart('"<b>', found, 2.0)
    assert 'aria-label="Average active sessions of &#34;&lt;b&gt; in the last 5 minutes' in drawn
    # A value of half the scale is half as high as the chart: from 1 to 35.
    (area,) = re.findall(r'd="([^"]*Z)"', str(drawn))
    assert set(re.findall(r",(\d+\.\d)", area)) == {"18.0", "35.0"}


def row(
    known: FleetMember,
    *,
    dsn: str | None = "",
    gone_at: datetime | None = None,
    samples: Ring | None = None,
    state: str = "connecting",
) -> Row:
    """Return the row of a server that leads since a minute, if its role says so."""
    collector = Collector(dsn, Ring()) if dsn is not None else None
    if collector is not None:
        collector._status = Status(state=state)
    member = Member(
        key="k",
        server=NamedServer(name=known.name, address=known.address, dsn=dsn),
        ring=samples or Ring(),
        collector=collector,
        gone_at=gone_at,
    )
    view = View(
        at=NOON + timedelta(minutes=1),
        fleet=Fleet(name="", url="", members=(known,), differences=()),
        members=(member,),
        lead=Lead(leader="a", since=NOON, is_exact=True),
    )
    found = overview(view)["rows"]
    assert isinstance(found, list)
    (one,) = found
    assert isinstance(one, Row)
    return one


def test_a_row_has_what_is_known_and_since_when_its_server_leads() -> None:
    leader = row(
        FleetMember(
            name="a", address="db1:5432", role="leader", timeline=3, mode="serve", hit_ratio=0.5,
            warmth=None,
        )
    )  # fmt: skip
    assert (leader.href, leader.since) == ("/server/k/", "since 12:00:00 UTC")
    assert (leader.timeline, leader.hit_ratio, leader.warmth) == ("3", "50 %", "–")
    follower = row(
        FleetMember(name="b", address="b", role="sync_standby", lag_bytes=1 << 20, warmth=0.97)
    )
    assert (follower.since, follower.role, follower.address) == ("", "sync standby", "")
    assert (follower.lag, follower.warmth, follower.mode) == ("1.00 MB", "97 %", "–")


def test_a_server_that_is_not_read_has_a_reason_and_no_page() -> None:
    known = FleetMember(name="a", address="", role="replica", problem="its address is not known")
    for one in (row(known, dsn=None), row(known, gone_at=NOON)):
        assert (one.href, one.problem) == ("", "Its address is not known.")


@pytest.mark.parametrize(
    ("state", "is_shown"), [("live", True), ("late", False), ("lost", False), ("connecting", False)]
)
def test_only_a_server_that_answers_has_a_load(state: str, *, is_shown: bool) -> None:
    known = FleetMember(name="a", address="", role="replica")
    one = row(known, samples=ring(3.0, 3.0), state=state)
    assert (one.sessions, one.chart != "") == (("3.00" if is_shown else "–"), is_shown)
