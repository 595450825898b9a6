# SPDX-License-Identifier: PostgreSQL
"""A standby is promoted while pages watch: the primary's follow it, the standby's reports it."""

import json
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
from support.served import Served, events, served
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


def test_a_promoted_standby_takes_over_and_every_page_says_so(
    cluster: ClusterFactory, pgflash_install: PgInstall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "LOOK_AGAIN_S", 0.5)
    primary = create_cached(cluster, pgflash_install, settings=REPLICATION)
    # Its queries are not cancelled: losing the standby for a moment is not tested here.
    standby = create_standby(
        cluster, primary.server, settings={"max_standby_streaming_delay": "-1"}
    )
    with (
        served(either(primary.server, standby.server), interval_s=0.1) as one,
        served(standby.server.conninfo(), interval_s=0.1) as other,
        one.stream() as stream,
    ):
        for page in (one, other):
            goes_on(page)
        assert ", a standby" in other.ask("/").text
        assert ", a standby" not in one.ask("/").text
        assert other.ask("/live/cache").json["present"] is True
        before = one.collector.server
        primary.server.stop("immediate")
        until(lambda: one.collector.status.state == "lost")
        with standby.server.connect() as connection:
            connection.execute("select pg_promote()")
        for page in (one, other):
            goes_on(page)
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
