# SPDX-License-Identifier: PostgreSQL
"""Members come, go, move and return; what addresses call them; what is compared."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from pgflash.collect.servers import NamedServer
from pgflash.errors import UsageError
from pgflash.live.collector import Collector, Status, Told
from pgflash.live.fleet import (
    GONE_KEPT,
    SERVERS_MAX,
    TOGETHER_S,
    ListedByPatroni,
    LiveFleet,
    Member,
    NamedByUser,
    key_of,
    reconcile,
    together,
)
from pgflash.live.ring import Ring
from pgflash.model.fleet import ServerFacts
from support.answering import answering, document
from support.patience import until
from support.served import served_fleet

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)


def server(name: str, port: int = 1) -> NamedServer:
    return NamedServer(name=name, address=f"{name}:{port}", dsn=f"host={name} port={port}")


class Watched:
    """Gives members collectors that read nothing, and counts."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def __call__(self, member: Member) -> Member:
        assert member.server.dsn is not None
        self.begun.append(member.server.dsn)
        return Member(
            key=member.key,
            server=member.server,
            ring=member.ring,
            collector=Collector(member.server.dsn, member.ring),
        )


def test_a_member_is_watched_from_the_moment_at_which_it_is_listed() -> None:
    watched = Watched()
    first = reconcile([], [server("a")], watched, NOW)
    then = reconcile(first, [server("b"), server("a")], watched, NOW)
    assert watched.begun == ["host=a port=1", "host=b port=1"]
    assert [one.key for one in then] == ["b", "a"]  # in the order of the list
    assert then[1] is first[0]


def test_a_member_that_is_not_listed_is_left_alone_and_its_row_stays_for_a_while() -> None:
    watched = Watched()
    (one,) = reconcile([], [server("a")], watched, NOW)
    (gone,) = reconcile([one], [], watched, NOW)
    assert one.collector is not None
    assert one.collector.status.state == "lost"
    assert gone.facts(NOW).problem == "Patroni does not list it since 10:00:00 UTC"
    (same,) = reconcile([gone], [], watched, NOW + GONE_KEPT - timedelta(seconds=1))
    assert same is gone
    assert reconcile([gone], [], watched, NOW + GONE_KEPT) == ()
    (back,) = reconcile([gone], [server("a")], watched, NOW)
    assert (back.gone_at, back.key, back.ring) == (None, one.key, one.ring)
    assert len(watched.begun) == 2


def test_a_member_that_moved_is_read_at_its_new_address_with_its_old_samples() -> None:
    watched = Watched()
    (one,) = reconcile([], [server("a")], watched, NOW)
    (moved,) = reconcile([one], [server("a", port=2)], watched, NOW)
    assert one.collector is not None
    assert one.collector.status.page == "The server is at another address now."
    assert watched.begun[-1] == "host=a port=2"
    assert (moved.key, moved.ring) == (one.key, one.ring)


def test_members_that_come_and_go_never_are_more_than_the_limit() -> None:
    watched = Watched()
    members: tuple[Member, ...] = ()
    for turn in range(5):
        listed = [server(f"m{turn}-{number}") for number in range(20)]
        members = reconcile(members, listed, watched, NOW)
        assert [one.server for one in members[:20]] == listed
        assert len(members) <= SERVERS_MAX


def names() -> Iterator[str]:
    yield from (
        "db1:5432",
        "db1-5432",
        "../../etc",
        "",
        "<script>",
        "a b",
        "ä",
        "x" * 300,
        "x" * 99,
    )


def test_addresses_call_servers_by_letters_digits_and_hyphens() -> None:
    taken: list[str] = []
    for name in names():
        key = key_of(name, taken)
        assert re.fullmatch(r"[A-Za-z0-9-]{1,64}", key)
        assert key not in taken
        taken.append(key)
    assert taken[:3] == ["db1-5432", "db1-5432-2", "etc"]


def test_positions_in_the_wal_are_compared_only_if_they_were_asked_for_together() -> None:
    found = []
    for at_s in (100.0, 100.0 - TOGETHER_S, 99.0 - TOGETHER_S):
        collector = Collector("", Ring())
        collector.told = Told(at_s=at_s, facts=ServerFacts(wal_bytes=5, timeline=1))
        collector._status = Status(state="live")
        found.append(Member(key="x", server=server("x"), ring=collector.ring, collector=collector))
    facts = together(found, NOW)
    assert [one.wal_bytes for one in facts] == [5, 5, None]
    assert [one.timeline for one in facts] == [1, 1, 1]


def test_more_servers_than_the_limit_are_refused() -> None:
    NamedByUser(["host=a"] * SERVERS_MAX)
    with pytest.raises(UsageError, match=f"more than {SERVERS_MAX}"):
        NamedByUser(["host=a"] * (SERVERS_MAX + 1))


def member(number: int) -> dict[str, object]:
    return {
        "name": f"m{number}", "role": "leader" if number == 50 else "replica",
        "state": "running", "host": "10.0.0.1", "port": 1 + number,
    }  # fmt: skip


def test_of_more_members_than_the_limit_the_leader_is_watched() -> None:
    with answering(document({"scope": "x", "members": [member(n) for n in range(60)]})) as told:
        seen = ListedByPatroni([told.url], None, "dbname=app")()
    assert (len(seen.servers), seen.unwatched) == (SERVERS_MAX, 60 - SERVERS_MAX)
    assert seen.servers[0].name == "m50"
    assert seen.cluster is not None
    assert [one.name for one in seen.cluster.members] == [one.name for one in seen.servers]


EVIL = "<script>alert(1)</script>"


def test_what_patroni_names_is_escaped_on_every_page() -> None:
    half = {**member(1), "name": "half \ud800", "host": ""}
    found = {"scope": EVIL, "members": [{**member(50), "name": EVIL, "host": "/tmp"}, half]}
    with (
        answering(document(found)) as told,
        served_fleet(LiveFleet(ListedByPatroni([told.url], None, None))) as site,
    ):
        until(lambda: site.fleet.view.fleet.members)
        overview = site.ask("/").text
        metrics = site.ask("/metrics").text
        refused = site.ask("/leader/", headers={"Accept": "text/html"})
    assert "<script>alert" not in overview + refused.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in overview
    assert "half ?" in overview
    assert "The address that Patroni has is not one of a host." in overview
    assert (refused.code, "is not one of a host" in refused.text) == (404, True)
    # Another one may lead soon.
    assert '<meta http-equiv="refresh" content="5">' in refused.text
    assert f"pgflash_up{{member={json.dumps(EVIL)}}} 0" in metrics
