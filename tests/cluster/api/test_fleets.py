# SPDX-License-Identifier: PostgreSQL
"""A switchover of a real Patroni cluster to a warm standby, and the tag of a warm one."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash import api
from pgflash.errors import PgflashError
from pgflash.progress import Listener
from pgflash_lab.postgres import PgInstall
from support.patience import until
from support.patroni import (
    PASSWORD,
    USER,
    PatroniCluster,
    PatroniMember,
    as_patronis_user,
    running_cluster,
)
from support.warmth import tell_warmth

ACCESS = api.PatroniAccess(user=USER, password=PASSWORD)
DSN = "dbname=postgres user=watcher"
OTHER_LEADS = re.compile("does not lead any more.*was not asked")


@pytest.fixture(scope="module")
def shared(pgflash_install: PgInstall) -> Iterator[PatroniCluster]:
    with running_cluster(pgflash_install) as cluster:
        with cluster.leader().connect() as connection:
            connection.execute("create role watcher login in role pg_monitor")
        yield cluster


@pytest.fixture
def fleet(shared: PatroniCluster) -> PatroniCluster:
    """A leader with two standbys, all of which are cold."""
    for member in shared.members:
        if not member.is_running:
            member.start()
    until(shared.is_whole)
    # A standby's may be as old as Patroni's loop.
    until(lambda: len(timelines(shared)) == 1)
    cold(shared)
    return shared


def cold(fleet: PatroniCluster) -> None:
    tell_warmth(fleet, {member.name: 0.5 for member in fleet.members})


class Waiting(Listener):
    """Does something once, when the wait has begun."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act
        self.titles: list[str] = []

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        self.titles.append(title)
        if title.startswith("waiting: ") and self._act is not None:
            act, self._act = self._act, None
            act()


def switch_over(fleet: PatroniCluster, act: Callable[[], object], **more: object) -> api.Switchover:
    """Ask for a switchover to a warm standby; ACT is called once it waits for one."""
    options: dict[str, object] = {"when_warm": 0.9, "access": ACCESS, **more}
    urls = [member.url for member in fleet.members]
    return api.fleet_switchover(patroni=urls, dsn=DSN, listener=Waiting(act), **options)  # type: ignore[arg-type]


def timelines(fleet: PatroniCluster) -> set[object]:
    return {one.get("timeline") for one in fleet.view()["members"]}


def test_patroni_switches_over_to_the_standby_that_gets_warm_first(fleet: PatroniCluster) -> None:
    leader, chosen = fleet.leader(), fleet.replicas()[1]
    done = switch_over(fleet, lambda: tell_warmth(fleet, {chosen.name: 0.95}))
    assert (done.from_member, done.to_member) == (leader.name, chosen.name)
    assert done.warmth == 0.95
    assert fleet.leader() is chosen
    with chosen.connect() as connection:
        until(lambda: connection.execute("select pg_is_in_recovery()").fetchone() == (False,))


def test_a_warm_standby_that_was_not_named_does_not_take_over(fleet: PatroniCluster) -> None:
    chosen, other = fleet.replicas()
    tell_warmth(fleet, {other.name: 1.0})
    done = switch_over(fleet, lambda: tell_warmth(fleet, {chosen.name: 0.9}), candidate=chosen.name)
    assert done.to_member == chosen.name


def test_a_standby_that_stays_cold_does_not_take_over(fleet: PatroniCluster) -> None:
    leader, before = fleet.leader(), timelines(fleet)
    with pytest.raises(api.FleetError, match="Patroni was not asked"):
        switch_over(fleet, lambda: None, timeout_s=0.0)
    assert fleet.leader() is leader
    assert timelines(fleet) == before


def test_an_interrupted_wait_leaves_nothing_behind(fleet: PatroniCluster) -> None:
    leader, before = fleet.leader(), timelines(fleet)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        switch_over(fleet, interrupt)
    tell_warmth(fleet, {member.name: 1.0 for member in fleet.members})
    assert fleet.leader() is leader
    assert timelines(fleet) == before
    assert "scheduled_switchover" not in fleet.view()


def test_a_failover_in_the_meantime_happens_and_ends_the_wait(fleet: PatroniCluster) -> None:
    leader = fleet.leader()

    def fail_over() -> None:
        leader.stop()
        until(lambda: fleet.leaders() not in ([], [leader.name]))
        warm = {one.name: 1.0 for one in fleet.members if one is not leader}
        tell_warmth(fleet, warm)

    with pytest.raises(api.FleetError, match=OTHER_LEADS):
        switch_over(fleet, fail_over)
    assert fleet.leader() is not leader


def test_a_crash_of_the_leader_in_the_meantime_is_not_delayed(fleet: PatroniCluster) -> None:
    leader = fleet.leader()

    def crash() -> None:
        leader.kill()

    # Until Patroni's key expires the leader is still named, and nobody is warm enough.
    with pytest.raises(api.FleetError, match=OTHER_LEADS):
        switch_over(fleet, crash)
    until(lambda: fleet.leaders() not in ([], [leader.name]))


def test_without_its_password_patroni_is_asked_and_refuses(fleet: PatroniCluster) -> None:
    leader = fleet.leader()
    tell_warmth(fleet, {member.name: 1.0 for member in fleet.members})
    with pytest.raises(api.PatroniError, match="401"):
        switch_over(fleet, lambda: None, access=None)
    assert fleet.leader() is leader


def test_the_leader_itself_and_unknown_members_cannot_take_over(fleet: PatroniCluster) -> None:
    with pytest.raises(api.FleetError, match="leads already"):
        switch_over(fleet, lambda: None, candidate=fleet.leader().name)
    with pytest.raises(api.FleetError, match="no member"):
        switch_over(fleet, lambda: None, candidate="omega")


# ---- the tag


def tag(member: PatroniMember) -> api.WarmTag:
    with as_patronis_user():
        return api.fleet_tag(
            member.config / "90-pgflash.yml",
            patroni=member.url,
            dsn=member.conninfo(user="watcher"),
            access=ACCESS,
        )


WARM = "/replica?tag_pgflash_warm=true"


def test_load_balancers_see_a_standby_while_it_is_warm(fleet: PatroniCluster) -> None:
    member = fleet.replicas()[0]
    assert not tag(member).is_warm
    assert member.status(WARM) == 503
    tell_warmth(fleet, {member.name: 0.9})
    assert tag(member).is_warm
    until(lambda: member.status(WARM) == member.status("/replica") == 200)
    tell_warmth(fleet, {member.name: 0.4})
    assert not tag(member).is_warm
    assert member.status(WARM) == 503


def test_a_tag_that_is_right_is_not_written_again(fleet: PatroniCluster) -> None:
    member = fleet.replicas()[0]
    tag(member)
    before = (member.config / "90-pgflash.yml").stat().st_ino
    assert not tag(member).changed
    assert (member.config / "90-pgflash.yml").stat().st_ino == before


def test_a_warm_standby_keeps_its_tag_a_little_below_the_limit(fleet: PatroniCluster) -> None:
    member = fleet.replicas()[0]
    tell_warmth(fleet, {member.name: 0.87})
    assert not tag(member).is_warm
    tell_warmth(fleet, {member.name: 0.9})
    assert tag(member).is_warm
    tell_warmth(fleet, {member.name: 0.87})
    assert tag(member).is_warm


def test_a_standby_without_a_list_is_not_called_warm(fleet: PatroniCluster) -> None:
    member = fleet.replicas()[0]
    tell_warmth(fleet, {member.name: None})
    found = tag(member)
    assert (found.is_warm, found.reason) == (False, "there is no list from the primary yet")


def test_a_primary_is_called_warm(fleet: PatroniCluster) -> None:
    assert tag(fleet.leader()).is_warm


def test_a_server_that_does_not_answer_is_not_called_warm(
    fleet: PatroniCluster, tmp_path: Path
) -> None:
    member = fleet.replicas()[0]
    tell_warmth(fleet, {member.name: 1.0})
    path = member.config / "90-pgflash.yml"
    with as_patronis_user():
        found = api.fleet_tag(
            path, patroni=member.url, dsn="host=/nowhere dbname=postgres", access=ACCESS
        )
    assert not found.is_warm
    assert member.status(WARM) == 503


def test_a_standby_whose_extension_does_not_tell_its_warmth_gets_no_tag(
    fleet: PatroniCluster, tmp_path: Path
) -> None:
    """A view of the same name that is not the extension's is anybody's."""
    member, path = fleet.replicas()[0], tmp_path / "90-pgflash.yml"

    def refused() -> bool:
        try:
            api.fleet_tag(path, patroni=member.url, dsn=member.conninfo(user="watcher"))
        except api.FleetError as error:
            return "does not have pgflash_cache_warmth" in error.message
        except PgflashError:  # not replicated yet: Patroni does not read this file
            path.unlink(missing_ok=True)
        return False

    with fleet.leader().connect() as leader:
        leader.execute("alter extension pgflash drop view pgflash_cache_warmth")
        try:
            until(refused)
        finally:
            leader.execute("alter extension pgflash add view pgflash_cache_warmth")
    assert not path.exists()


def test_a_file_that_patroni_does_not_read_is_noticed(
    fleet: PatroniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = fleet.replicas()[0]
    tell_warmth(fleet, {member.name: 0.1})
    tag(member)
    (member.config / "90-pgflash.yml").unlink()
    tell_warmth(fleet, {member.name: 1.0})
    monkeypatch.setattr("pgflash.api.fleets.RELOAD_WAIT_S", 0.0)
    with pytest.raises(api.PatroniError, match="does not read"), as_patronis_user():
        api.fleet_tag(
            member.base / "90-pgflash.yml",
            patroni=member.url,
            dsn=member.conninfo(user="watcher"),
            access=ACCESS,
        )
