# SPDX-License-Identifier: PostgreSQL
"""When something fails, the alert about it reaches the receiver, with its line of the runbook.

The fault matrix's faults, a real Prometheus that scrapes the live page's /metrics, and a real
Alertmanager that notifies this test.  The rules are those that are installed, but a minute of them
is a second here, and no alert waits: tests/unit/tools/definitions/test_alerts.py is about times.

The first test is part of every run, the others of `make monitoring-check`.
"""

import contextlib
import errno
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from definitions.alerts import alerts
from definitions.exporters import MONITORING
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.fault_cases import failing, wrong
from support.fault_rig import Rig
from support.faults import Call, Kind
from support.patience import eventually, until
from support.prometheus import Prometheus, Receiver, alertmanager, prometheus
from support.served import served


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Prometheus, and whom it notifies."""

    prometheus: Prometheus
    receiver: Receiver

    def await_alert(self, name: str) -> dict[str, str]:
        """Wait until an alert is received; return its labels and texts."""
        received = self.receiver.received
        assert eventually(lambda: name in received), self.prometheus.ask("alerts")
        alert = received[name]
        assert alert["runbook"] == alerts()[name]["todo"]
        assert alert["severity"] == alerts()[name]["severity"]
        assert alert["instance"] in alert["summary"]
        return alert


@pytest.fixture(scope="module")
def rig(pgflash_install: PgInstall) -> Iterator[Rig]:
    factory = ClusterFactory(pgflash_install)
    built = Rig.build(factory, pgflash_install)
    yield built
    built.stop()
    factory.close()


@pytest.fixture
def watch(rig: Rig, tmp_path: Path) -> Iterator[Watch]:
    """Start with a sound server that is watched, and of which nothing is to be said."""
    rig.begin()
    rules = tmp_path / "rules.yaml"
    rules.write_text(hastened((MONITORING / "prometheus-rules.yaml").read_text()))
    with contextlib.ExitStack() as stack:
        page = stack.enter_context(served(rig.cached.server.conninfo(), interval_s=0.1))
        until(lambda: page.collector.status.state == "live")
        receiver = stack.enter_context(alertmanager(tmp_path))
        one = stack.enter_context(
            prometheus(
                tmp_path,
                targets=[page.port],
                rules=rules,
                alertmanager=receiver.port,
                interval="200ms",
            )
        )
        until(lambda: one.query("count_over_time(pgflash_cache_hits_total[1m]) > 2"))
        # On a machine that stalls, the page has no answer for a moment.
        assert one.firing() | receiver.received.keys() <= {"PgflashNoAnswer"}
        yield Watch(prometheus=one, receiver=receiver)
        rig.faults.stop()
    rig.stop()


def hastened(rules: str) -> str:
    """Return the rules with a minute as a second, and no alert waiting."""
    rules = re.sub(r'for: "\d+m"', 'for: "0s"', rules)
    seconds = {"m": 1, "h": 60, "d": 24 * 60}
    return re.sub(
        r"\[(\d+)([mhd])\]", lambda found: f"[{int(found[1]) * seconds[found[2]]}s]", rules
    )


def test_a_device_that_returns_wrong_data_is_alerted_and_so_is_the_end(
    rig: Rig, watch: Watch
) -> None:
    rig.faults.strike(wrong(Call.READ, Kind.FLIP))
    rig.work_until_struck(1)
    watch.await_alert("PgflashCorruptSlots")
    watch.await_alert("PgflashNotServing")
    failed = watch.await_alert("PgflashDeviceBypassed")
    assert failed["summary"].startswith(f"Cache file {rig.cached.cache_file} is failed on ")
    # None of it was used.
    assert "PgflashMismatch" not in watch.receiver.received
    rig.begin()
    until(lambda: {"PgflashNotServing", "PgflashDeviceBypassed"} <= watch.receiver.resolved)


@pytest.mark.monitoring_check
@pytest.mark.parametrize("calls", [Call.READ, Call.WRITE])
def test_calls_that_fail_are_alerted(rig: Rig, watch: Watch, calls: Call) -> None:
    rig.faults.strike(failing(calls, errno.EIO, 3))
    rig.work_until_struck(3)
    watch.await_alert("PgflashDeviceErrors")
    # The cache continues without that alert's being more.
    assert rig.check()["mode"] == "serve"
    assert "PgflashNotServing" not in watch.receiver.received


@pytest.mark.monitoring_check
def test_a_device_that_hangs_is_alerted(rig: Rig, watch: Watch) -> None:
    server = rig.cached.server
    server.configure({"pgflash.read_deadline": "50ms"})
    server.reload()
    rig.cached.emulator.stall("flash", seconds=120)
    try:
        with server.connect() as session:

            def is_bypassed() -> bool:
                for key in random.sample(list(rig.world.tables["postgres", "ledger"]), 100):
                    session.execute("select v from ledger where id = %s", (key,))
                return "PgflashDeviceBypassed" in watch.receiver.received

            assert eventually(is_bypassed)
    finally:
        rig.cached.emulator.stall("flash", seconds=0)
        server.configure({"pgflash.read_deadline": "10s"})
    alert = watch.await_alert("PgflashDeviceBypassed")
    assert alert["pgflash_cache_device_state"] == "bypassed"
    until(lambda: "PgflashDeviceBypassed" in watch.receiver.resolved)
    assert "PgflashNotServing" not in watch.receiver.received


@pytest.mark.monitoring_check
def test_a_budget_that_is_spent_is_alerted(rig: Rig, watch: Watch) -> None:
    server = rig.cached.server
    server.configure({"pgflash.write_budget": "1MB"})
    server.reload()
    try:

        def spent() -> bool:
            rig.work()
            return "PgflashBudgetSpent" in watch.receiver.received

        assert eventually(spent)
    finally:
        server.configure({"pgflash.write_budget": "0"})
    watch.await_alert("PgflashBudgetSpent")


@pytest.mark.monitoring_check
def test_a_block_that_differs_is_alerted(rig: Rig, watch: Watch) -> None:
    with rig.cached.server.connect() as session:
        session.execute(
            "create table victim as select n as id, repeat('x', 500) as pad"
            " from generate_series(1, 4000) n"
        )
        session.execute("checkpoint")
        row = session.execute("select pg_relation_filepath('victim')").fetchone()
        assert row is not None

        def is_cached() -> bool:
            session.execute("select sum(length(pad)) from victim")
            found = session.execute(
                "select sum(cached_blocks) > 100 from pgflash_relations"
                " where relation = 'victim'::regclass"
            ).fetchone()
            return bool(found and found[0])

        assert eventually(is_cached)
        path = rig.cached.server.data / row[0]
        with path.open("r+b") as file:
            for offset in range(8191, path.stat().st_size, 8192):
                file.seek(offset)
                file.write(b"!")
        _compared, mismatched = rig.cached.verify()
        assert mismatched > 0
        watch.await_alert("PgflashMismatch")
        watch.await_alert("PgflashNotServing")
        session.execute("drop table victim")


@pytest.mark.monitoring_check
def test_a_data_file_that_another_program_changes_is_alerted(rig: Rig, watch: Watch) -> None:
    with rig.cached.server.connect() as session:
        session.execute("create table touched as select generate_series(1, 10000) as id")
        session.execute("checkpoint")
        row = session.execute("select pg_relation_filepath('touched')").fetchone()
    assert row is not None
    path = rig.cached.server.data / row[0]

    def is_noticed() -> bool:
        """Change the file's attributes once more, and have a new process use it."""
        path.chmod(path.stat().st_mode ^ 0o040)
        with rig.cached.server.connect() as session:
            session.execute("select count(*) from touched")
        return "PgflashForeignChanges" in watch.receiver.received

    assert eventually(is_noticed)
    watch.await_alert("PgflashForeignChanges")
    assert "PgflashMismatch" not in watch.receiver.received
    rig.world.run("drop table touched")


@pytest.mark.monitoring_check
def test_a_hit_ratio_that_collapses_is_alerted(rig: Rig, watch: Watch) -> None:
    def hits_prevail() -> bool:
        rig.world.check()
        view = rig.cached.view()
        # Scans of large tables miss: they do not fill, unless I/O workers share them.
        return bool(view["hits"] > 4 * view["misses"] > 0 and view["hits"] > 20_000)

    assert eventually(hits_prevail)
    assert "PgflashHitRatioCollapsed" not in watch.receiver.received

    def has_collapsed() -> bool:
        rig.world.run("select pgflash_cache_clear()")
        rig.world.run("select count(pad) from {name}", name="ballast")
        return "PgflashHitRatioCollapsed" in watch.receiver.received

    assert eventually(has_collapsed)
    watch.await_alert("PgflashHitRatioCollapsed")


@pytest.mark.monitoring_check
def test_a_server_that_does_not_answer_is_alerted(rig: Rig, watch: Watch) -> None:
    rig.stop()
    watch.await_alert("PgflashNoAnswer")
    rig.begin()
    until(lambda: "PgflashNoAnswer" in watch.receiver.resolved)


def test_every_alert_is_tried_here() -> None:
    tried = re.findall(r"await_alert\(\"(\w+)\"\)", Path(__file__).read_text())
    assert set(tried) == set(alerts())
