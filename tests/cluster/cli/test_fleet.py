# SPDX-License-Identifier: PostgreSQL
"""pgflash fleet on a real Patroni cluster, as a DBA types it, and the live page of its members."""

import contextlib
import json
import pickle
import signal
import socket
import struct
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgflash.cli import main
from pgflash.live.fleet import LiveFleet
from pgflash.web.serve import to_watch
from pgflash_lab.patroni import NAMES
from pgflash_lab.postgres import PgInstall
from pgflash_lab.processes import servers_in
from support.commands import output
from support.patience import PATIENCE_S, until
from support.patroni import (
    PASSWORD,
    USER,
    PatroniCluster,
    PatroniMember,
    as_patronis_user,
    running_cluster,
)
from support.served import ServedFleet, served_fleet
from support.terminal import PGFLASH, terminal
from support.warmth import tell_warmth

SECRET = "s3cret of the role"


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands change something by Patroni's REST API."""
    monkeypatch.setenv("PATRONI_RESTAPI_USERNAME", USER)
    monkeypatch.setenv("PATRONI_RESTAPI_PASSWORD", PASSWORD)


@pytest.fixture(scope="module")
def fleet(pgflash_install: PgInstall) -> Iterator[PatroniCluster]:
    own = {"gamma": {"pgflash.cache_size": "32MB"}}
    with running_cluster(pgflash_install, own_parameters=own) as cluster:
        with cluster.leader().connect() as connection:
            connection.execute("create role watcher login in role pg_monitor")
            connection.execute(f"create role guarded login password '{SECRET}' in role pg_monitor")
        until(cluster.is_whole)
        yield cluster


def status(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster, *words: str, user: str = "watcher"
) -> dict[str, Any]:
    """Return the members by their names, as JSON has them."""
    url = fleet.members[0].url
    words = ("--patroni", url, "-d", "postgres", "-U", user, *words)
    found = json.loads(output(capsys, "fleet", "status", *words, "--format", "json"))
    return {one["name"]: one for one in found["members"]}


@contextlib.contextmanager
def page(fleet: PatroniCluster, dsn: str = "dbname=postgres user=watcher") -> Iterator[ServedFleet]:
    """Serve the live page of the members, as pgflash serve does."""
    watched = to_watch([dsn], patroni=[member.url for member in fleet.members])
    assert isinstance(watched, LiveFleet)
    with served_fleet(watched) as site:
        until(lambda: len(site.fleet.view.fleet.members) == len(fleet.members))
        until(lambda: not any(one.is_connecting for one in site.fleet.view.members))
        yield site


# ---- other users of this machine, who reach the same addresses


@pytest.mark.parametrize("user", ["postgres", "rewinder", "replicator"])
def test_no_server_takes_a_stranger_who_has_no_password(
    fleet: PatroniCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: str
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    for member in fleet.members:
        for more in ({}, {"replication": "database"}, {"replication": "true"}):
            stranger = make_conninfo(
                "", host=member.host, port=member.port, dbname="postgres", user=user, **more
            )
            with pytest.raises(psycopg.OperationalError, match="no password supplied"):
                psycopg.connect(stranger)


def test_patroni_changes_nothing_for_a_stranger(fleet: PatroniCluster) -> None:
    for member in fleet.members:
        body = json.dumps({"postgresql": {"parameters": {"archive_command": "id"}}}).encode()
        asked = urllib.request.Request(f"{member.url}/config", body, method="PATCH")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked, timeout=PATIENCE_S)


def test_raft_reads_nothing_of_a_stranger(fleet: PatroniCluster) -> None:
    """Raft unpickles what it reads, which can run code."""
    message = zlib.compress(pickle.dumps(["status"]))
    for member in fleet.members:
        host, _, port = member.raft.partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as stranger:
            stranger.sendall(struct.pack("i", len(message)) + message)
            assert stranger.recv(1) == b"", "it is closed without an answer"


def test_only_the_servers_user_can_read_the_password(fleet: PatroniCluster) -> None:
    for member in fleet.members:
        for path in (member.config / "10-patroni.yml", *member.base.glob("pgpass*")):
            assert path.stat().st_mode & 0o777 == 0o600, path
        for folder in (member.base, member.config, member.data):
            assert folder.stat().st_mode & 0o077 == 0, folder
        assert fleet.plan.password not in member.log_path.read_text(errors="replace")
    assert fleet.plan.password not in repr(fleet.plan)


# ---- the fleet


def test_all_members_are_shown_with_role_lag_cache_and_version(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    found = status(capsys, fleet)
    leader = fleet.leader().name
    assert sorted(found) == ["alpha", "beta", "gamma"]
    for name, one in found.items():
        assert one["role"] == ("leader" if name == leader else "replica")
        assert one["address"] == f"{fleet.host}:{fleet.member(name).port}"
        assert one["size_bytes"] == (32 if name == "gamma" else 16) << 20
        assert (one["mode"], one["problem"]) == ("serve", "")
        assert one["timeline"] == found[leader]["timeline"]
        assert (one["lag_bytes"] is None) == (name == leader)
        assert one["version"]


def test_only_settings_that_are_not_the_same_are_shown(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    text = output(
        capsys, "fleet", "status", "--patroni", fleet.members[0].url, "-d", "postgres", "-U",
        "watcher",
    )  # fmt: skip
    assert "pgflash.cache_size" in text
    assert "shared_buffers" not in text
    assert "pgflash.cache_size" in status(capsys, fleet)["gamma"]["differs"]


def test_a_spreadsheet_gets_the_same(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    words = ("--patroni", fleet.members[0].url, "-d", "postgres", "-U", "watcher")
    head, *rows = output(capsys, "fleet", "status", *words, "--format", "csv").splitlines()
    assert head.startswith("name,address,role,state,")
    assert [row.split(",")[0] for row in rows] == ["alpha", "beta", "gamma"]


def test_without_patroni_servers_are_named_one_by_one(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    words = [word for one in fleet.members for word in ("-d", one.conninfo(user="watcher"))]
    found = json.loads(output(capsys, "fleet", "status", *words, "--format", "json"))
    roles = {one["address"]: one["role"] for one in found["members"]}
    leader = fleet.leader()
    for member in fleet.members:
        assert roles[f"{fleet.host}:{member.port}"] == (
            "primary" if member is leader else "standby"
        )
    lags = [one["lag_bytes"] for one in found["members"] if one["role"] == "standby"]
    assert all(lag is not None for lag in lags)


@contextlib.contextmanager
def stopped_server(fleet: PatroniCluster, member: PatroniMember) -> Iterator[None]:
    """End a member's server for a while; Patroni, in maintenance, does not start it again."""
    fleet.configure({"pause": True})
    until(lambda: all(one.ask("/patroni").get("pause") for one in fleet.members))
    for process in servers_in(member.data):
        process.send(signal.SIGQUIT)
    until(lambda: not servers_in(member.data))
    try:
        yield
    finally:
        fleet.configure({"pause": None})
        until(fleet.is_whole)


def test_a_member_that_does_not_answer_is_a_row_with_its_reason(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    down = fleet.replicas()[0]
    with stopped_server(fleet, down):
        found = status(capsys, fleet)
        with page(fleet) as site:
            until(lambda: "refused" in site.member(down.name).problem)
            assert "No answer yet, trying again: Connection refused." in site.ask("/").text
    assert "Connection refused" in found[down.name]["problem"]
    assert found[down.name]["role"] == "replica"
    others = [one for name, one in found.items() if name != down.name]
    assert [one["problem"] for one in others] == ["", ""]


def test_a_password_that_was_meant_for_another_server_is_not_sent(
    capsys: pytest.CaptureFixture[str],
    fleet: PatroniCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = tmp_path / "services"
    services.write_text(f"[mine]\nhost=mine.example.org\npassword={SECRET}\n")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    url = fleet.members[0].url
    for dsn in ("postgres", f"dbname=postgres password='{SECRET}'", "service=mine dbname=postgres"):
        words = ("--patroni", url, "-d", dsn, "-U", "guarded", "--format", "json")
        found = json.loads(output(capsys, "fleet", "status", *words))
        problems = {one["problem"] for one in found["members"]}
        assert all("no password supplied" in one for one in problems), problems
    with page(fleet, f"dbname=postgres user=guarded password='{SECRET}'") as site:
        until(lambda: all("no password supplied" in site.member(n).problem for n in NAMES))
        assert SECRET not in repr(site.fleet.view)


def test_a_password_of_pgpass_is_for_the_host_of_its_line(
    capsys: pytest.CaptureFixture[str],
    fleet: PatroniCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "pgpass"
    path.write_text(f"{fleet.host}:{fleet.members[0].port}:*:guarded:{SECRET}\n")
    path.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(path))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    found = status(capsys, fleet, user="guarded")
    assert found["alpha"]["problem"] == ""
    assert "no password supplied" in found["beta"]["problem"]


def test_a_server_that_the_user_named_gets_the_users_password(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    dsn = fleet.members[0].conninfo(user="guarded")
    (one,) = json.loads(output(capsys, "fleet", "status", "-d", dsn, "--format", "json"))["members"]
    assert one["problem"] == ""


def test_a_database_without_the_extension_is_said(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    url = fleet.members[0].url
    words = ("--patroni", url, "-d", "template1", "-U", "watcher", "--format", "json")
    found = json.loads(output(capsys, "fleet", "status", *words))
    assert {one["problem"] for one in found["members"]} == {
        'the extension pgflash is not in the database "template1"'
    }


def switchover(fleet: PatroniCluster, *words: str) -> list[str]:
    urls = [word for member in fleet.members for word in ("--patroni", member.url)]
    return ["fleet", "switchover", *urls, "-d", "postgres", "-U", "watcher", *words]


def test_ctrl_c_ends_the_wait_and_nothing_has_changed(fleet: PatroniCluster) -> None:
    tell_warmth(fleet, {member.name: 0.42 for member in fleet.members})
    leader = fleet.leader()
    environment = {"PGFLASH_CONFIG": ""}
    with terminal(
        [*PGFLASH, *switchover(fleet, "--yes")], columns=120, environment=environment
    ) as shown:
        shown.until("42 % warm")
        shown.type("\x03")
        text = shown.rest()
    assert shown.child.returncode == 130
    assert "interrupted" in text
    tell_warmth(fleet, {member.name: 1.0 for member in fleet.members})
    assert fleet.leader() is leader
    assert "scheduled_switchover" not in fleet.view()


def test_a_switchover_says_who_leads(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    leader, chosen = fleet.leader(), fleet.replicas()[0]
    tell_warmth(fleet, {member.name: 0.1 for member in fleet.members} | {chosen.name: 0.93})
    with page(fleet) as site:
        until(lambda: site.fleet.view.lead.leader == leader.name)
        until(lambda: site.member(chosen.name).warmth == 0.93)
        text = output(capsys, *switchover(fleet, "--yes"))
        until(lambda: site.fleet.view.lead.leader == chosen.name)
        said = site.fleet.view.sentence
        assert said.startswith(f"{chosen.name} leads since ")
        assert said.endswith(f"; before, {leader.name} did.")
        # The leader is the first row, and its page has moved.
        assert site.fleet.view.fleet.members[0].name == chosen.name
        assert f"Performance of {chosen.name}</h1>" in site.ask("/leader/").text
    assert text == f"{chosen.name} leads, after {leader.name}; it was 93 % warm.\n"
    until(fleet.is_whole)


def test_patronis_history_tells_since_when_the_leader_leads(fleet: PatroniCluster) -> None:
    leader = fleet.leader()
    until(lambda: leader.ask("/history")[-1:] and leader.ask("/history")[-1][-1] == leader.name)
    with page(fleet) as site:
        until(lambda: site.fleet.view.lead.leader == leader.name)
        lead = site.fleet.view.lead
    at = datetime.fromisoformat(leader.ask("/history")[-1][3])
    assert (lead.is_exact, lead.since) == (True, at)


def test_the_table_shows_how_warm_each_member_is(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    tell_warmth(fleet, {"alpha": 0.25, "beta": 0.5, "gamma": None})
    found = status(capsys, fleet)
    assert [one["warmth"] for one in found.values()] == [0.25, 0.5, None]


def test_a_tag_is_said_when_it_changes(
    capsys: pytest.CaptureFixture[str], fleet: PatroniCluster
) -> None:
    member = fleet.replicas()[0]
    tell_warmth(fleet, {member.name: 0.97})
    path = member.config / "90-pgflash.yml"
    words = ["fleet", "tag", "--file", str(path), "--patroni", member.url]
    with as_patronis_user():
        assert main([*words, "-d", member.conninfo(user="watcher")]) == 0
    assert capsys.readouterr().out == "pgflash_warm is true: 97 % warm\n"
