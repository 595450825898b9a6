# SPDX-License-Identifier: PostgreSQL
"""A standby is promoted while pages watch: the primary's follow it, the standby's reports it.

A site of both servers says who leads, and its page of the leader moves.
"""

import contextlib
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from pgflash.live import collector as collecting
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.patience import until
from support.served import Served, ServedFleet, events, served, served_fleet
from support.standby import REPLICATION, create_standby


def goes_on(page: Served) -> None:
    newest = page.collector.ring.newest
    until(lambda: page.collector.status.state == "live" and page.collector.ring.newest > newest + 3)


def told(page: Served, kind: str) -> list[dict[str, Any]]:
    return [json.loads(one.data) for one in page.collector.ring.after(0)[0] if one.kind == kind]


def notices(page: Served) -> list[str]:
    return [one["sentence"] for one in told(page, "notice")]


def either(*servers: Server) -> str:
    """Return a connection string that leads to the one that accepts writes."""
    places = [dict(word.split("=", 1) for word in one.conninfo().split()) for one in servers]
    first = places[0]
    return " ".join(
        [
            f"host={','.join(one['host'] for one in places)}",
            f"port={','.join(one.get('port', '5432') for one in places)}",
            *(f"{name}={word}" for name, word in first.items() if name not in ("host", "port")),
            "target_session_attrs=read-write",
        ]
    )


def name_of(server: Server) -> str:
    """Return what a site of several servers calls one."""
    parts = dict(word.split("=", 1) for word in server.conninfo().split())
    return f"{parts['host']}:{parts['port']}"


def ups(site: ServedFleet) -> dict[str, str]:
    """Return by server whether it answers, as metrics have it."""
    return dict(re.findall(r'^pgflash_up{member="(.*)"} (.)$', site.ask("/metrics").text, re.M))


def assert_side_by_side(both: ServedFleet, primary: str, standby: str) -> None:
    """Fail unless both are shown, with what tells them apart, and the primary leads."""
    until(lambda: both.fleet.view.lead.leader == primary)
    until(lambda: both.member(standby).lag_bytes is not None)
    until(lambda: both.member(standby).mode == "serve")
    assert both.fleet.view.sentence.startswith(f"{primary} leads since before ")
    found, follows = both.member(primary), both.member(standby)
    assert (found.role, found.lag_bytes, found.mode) == ("primary", None, "serve")
    assert (follows.role, follows.mode, follows.problem) == ("standby", "serve", "")
    assert found.timeline == 1
    assert ups(both) == {primary: "1", standby: "1"}
    until(lambda: both.ask("/").text.count("<svg") == 2)
    for root in (both.root(primary), both.root(standby), "/leader"):
        page = both.ask(f"{root}/").text
        assert f'data-root="{root}"' in page
        assert (", a standby" in page) == (root == both.root(standby))
        assert both.ask(f"{root}/live/cache").json["present"] is True
        assert both.ask(f"{root}/blocking").code == both.ask(f"{root}/cache").code == 200


def assert_moved(both: ServedFleet, before: str, now: str) -> None:
    """Fail unless the site knows who leads now, since when, and what became of the other."""
    until(lambda: both.fleet.view.lead.leader == now)
    said = both.fleet.view.sentence
    assert re.fullmatch(rf"{now} leads since \d\d:\d\d:\d\d \S+; before, {before} did\.", said)
    until(lambda: said in both.ask("/").text)
    assert both.member(before).problem.startswith("No answer since ")
    assert (both.member(now).role, both.member(now).problem) == ("primary", "")
    assert ups(both) == {before: "0", now: "1"}
    # The page of the leader is another server's now; every page says so.
    assert f"Performance of {now}</h1>" in both.ask("/leader/").text
    for root in (both.root(before), both.root(now)):
        assert said in both.ask(f"{root}/").text
    assert "No answer since " in both.ask(f"{both.root(before)}/").text


def test_a_promoted_standby_takes_over_and_every_page_says_so(
    cluster: ClusterFactory, pgflash_install: PgInstall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "LOOK_AGAIN_S", 0.5)
    monkeypatch.setattr(collecting, "FACTS_EVERY_S", 0.5)
    primary = create_cached(cluster, pgflash_install, settings=REPLICATION)
    standby = create_standby(cluster, primary.server)
    with (
        served(either(primary.server, standby.server), interval_s=0.1) as one,
        served(standby.server.conninfo(), interval_s=0.1) as other,
        served_fleet([primary.server.conninfo(), standby.server.conninfo()]) as both,
        one.stream() as stream,
        contextlib.ExitStack() as stack,
    ):
        names = name_of(primary.server), name_of(standby.server)
        assert_side_by_side(both, *names)
        for page in (one, other):
            goes_on(page)
        assert ", a standby" in other.ask("/").text
        assert ", a standby" not in one.ask("/").text
        assert other.ask("/live/cache").json["present"] is True
        before = one.collector.server
        leading = stack.enter_context(both.stream(root="/leader"))
        primary.server.stop("immediate")
        until(lambda: one.collector.status.state == "lost")
        with standby.server.connect() as connection:
            connection.execute("select pg_promote()")
        for page in (one, other):
            goes_on(page)
        assert_moved(both, *names)
        assert "moved" in [event["event"] for event in events(leading)]
        # Viewers of the primary: the same database, another process.
        now = one.collector.server
        assert before is not None
        assert now is not None
        assert now.system_identifier == before.system_identifier
        assert now.started_at != before.started_at
        assert "another copy of it answers" in notices(one)[0]
        assert [said["state"] for said in told(one, "status")][:2] == ["live", "lost"]
        # Viewers of the standby never lost it.
        promoted = "The server was promoted and is no longer a standby."
        until(lambda: promoted in notices(other))
        assert promoted in other.ask("/").text
        assert [said["state"] for said in told(other, "status")] == ["live"]
        for page in (one, other):
            assert min(made["commits_s"] for made in told(page, "sample")) >= 0
            assert ", a standby" not in page.ask("/").text
            # Questions about a range are answered by the new one, too.
            end = datetime.now(UTC)
            times = {"from": (end - timedelta(minutes=1)).isoformat(), "to": end.isoformat()}
            assert page.ask(f"/live/details?{urlencode(times)}").code == 200
            assert page.ask("/live/cache").json["present"] is True
        # A viewer who was there all the time has been told each thing once, in order.
        numbers: list[int] = []
        for event in events(stream):
            if "id" in event:
                numbers.append(int(event["id"].partition("-")[2]))
                if event["event"] == "notice":
                    break
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
