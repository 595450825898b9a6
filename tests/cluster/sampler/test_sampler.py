# SPDX-License-Identifier: PostgreSQL
"""The sampler: what it sees of known loads, how it reports its gaps, and who may read it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.failover.usage import commit_wait_s
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import process_titles
from support.cluster import ClusterFactory
from support.patience import eventually
from support.sampled import Row, gap_s, repeating, rows, sampler, seen_by, sleeping, working
from support.shim import compile_shim
from support.waits import WAITS_OF_CLIENTS

#: Differences between major versions are tested on each of them; the sampler's own cadence and ring
#: are not.
every_major = pytest.mark.extension

RATE_HZ = 50
#: A postmaster that stores the pid of a process when that has long been running.
SLOW_FORK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
pid_t fork(void)
{
    pid_t (*real)(void) = dlsym(RTLD_NEXT, "fork");
    pid_t pid = real();

    if (pid > 0)
        usleep(200000);
    return pid;
}
"""
SETTINGS = {"pgflash.sample_rate": str(RATE_HZ), "compute_query_id": "on"}


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """One server without a cache for all tests here."""
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings=SETTINGS)
    rows(server, "create extension pgflash")
    rows(server, "create table item (id int primary key, n int)")
    rows(server, "insert into item values (1, 0)")
    yield server
    factory.close()


def sessions_of(server: Server, pid: int) -> list[Row]:
    return rows(server, "select * from pgflash_active_sessions where pid = %s", pid)


def seconds_by(found: list[Row], *columns: str) -> dict[Any, float]:
    totals: dict[Any, float] = {}
    for row in found:
        key = tuple(row[column] for column in columns)
        totals[key] = totals.get(key, 0) + row["seconds"]
    return totals


def configure(server: Server, **settings: str) -> None:
    """Change settings of pgflash and make sure that the sampler uses them."""
    server.configure({f"pgflash.{name}": value for name, value in settings.items()})
    server.reload()


def looks_until(server: Server, pid: int, wait_event: str) -> list[Row]:
    """Wait until a session has been seen in a wait; return all that was seen of it."""
    assert eventually(
        lambda: any(row["wait_event"] == wait_event for row in sessions_of(server, pid))
    )
    return sessions_of(server, pid)


# ---- wait classes


def test_a_wait_has_the_class_that_it_means_to_a_client(server: Server) -> None:
    found = rows(
        server,
        "select pgflash_wait_class('client backend', wait_event_type, wait_event) as of_client,"
        " pgflash_wait_class('checkpointer', wait_event_type, wait_event) as of_other"
        " from unnest(%s::text[], %s::text[]) as e (wait_event_type, wait_event)",
        [kind for kind, _event, _expected in WAITS_OF_CLIENTS],
        [event for _kind, event, _expected in WAITS_OF_CLIENTS],
    )
    assert [row["of_client"] for row in found] == [one for *_, one in WAITS_OF_CLIENTS]
    idle = {("", ""), ("Client", "ClientRead")}
    assert [row["of_other"] for row in found] == [
        "Idle" if kind in {"Activity", "Timeout"} or (kind, event) in idle else "System I/O"
        for kind, event, _expected in WAITS_OF_CLIENTS
    ]


@every_major
def test_the_list_of_wait_events_is_the_servers_own(server: Server) -> None:
    ours = {
        (row["wait_event_type"], row["wait_event"])
        for row in rows(server, "select * from pgflash_wait_events")
    }
    if not rows(server, "select 1 as one from pg_class where relname = 'pg_wait_events'"):
        assert len(ours) > 200
        assert ("LWLock", "FlashCacheRead") in ours
        assert {kind for kind, _event in ours} >= {"Activity", "BufferPin", "Client", "IPC", "IO"}
        return
    theirs = {
        (row["type"], row["name"])
        for row in rows(server, "select type, name from pg_wait_events where type <> 'Extension'")
    }
    assert {event for event in ours if event[0] != "Extension"} == theirs
    assert ("Extension", "FlashCacheRead") in ours


@every_major
def test_a_client_backend_without_an_event_is_at_work(server: Server) -> None:
    assert rows(server, "select pgflash_wait_class(null, null, null) as c") == [{"c": "CPU"}]


# ---- known loads


@every_major
def test_a_sleep_a_lock_wait_and_work_are_seen_in_their_times(server: Server) -> None:
    seconds = 1.5
    unseen = gap_s(server)
    begin = time.monotonic()
    holder = server.connect(autocommit=False)
    holder.execute("update item set n = 1 where id = 1")
    sleep = f"select pg_sleep({seconds})"
    lock = "update item set n = 2 where id = 1"
    work = (
        "do $$ declare enough timestamptz := clock_timestamp() + interval '1.5 s';"
        " begin while clock_timestamp() < enough loop end loop; end $$"
    )
    with working(server, lock) as waiter, working(server, sleep) as sleeper:
        waits = "select pid from pg_stat_activity where wait_event = 'transactionid'"
        assert eventually(lambda: rows(server, waits))
        with working(server, work) as worker:
            pass
        holder.commit()
    holder_pid = holder.info.backend_pid
    holder.close()
    # Each took at least its time, and all of them together the time that we saw pass.
    most = time.monotonic() - begin + 2 / RATE_HZ
    least = seconds - 2 / RATE_HZ - (gap_s(server) - unseen)

    columns = ("state", "wait_event_type", "wait_event", "wait_class")
    for pid, event in (
        (sleeper, ("active", "Timeout", "PgSleep", "Application")),
        (waiter, ("active", "Lock", "transactionid", "Application")),
        (worker, ("active", None, None, "CPU")),
        (holder_pid, ("idle in transaction", "Client", "ClientRead", "Idle")),
    ):
        found = seconds_by(sessions_of(server, pid), *columns)
        assert least <= found.get(event, 0.0) <= sum(found.values()) <= most


@every_major
def test_a_session_between_two_statements_of_a_transaction_is_idle(server: Server) -> None:
    # Just before it waits for its client it shows no event, and that is not a statement's time.
    configure(server, sample_rate="1000")
    try:
        with server.connect() as connection, connection.transaction():
            (pid,) = connection.execute("select pg_backend_pid()").fetchone() or (0,)
            between = (
                "select wait_class, count(*) from pgflash_active_sessions where pid = %s "
                "and state = 'idle in transaction' and wait_event is null group by 1"
            )

            def seen() -> list[Row]:
                for _ in range(1000):
                    connection.execute("select 1")
                return rows(server, between, pid)

            assert eventually(lambda: bool(seen()))
            assert [row["wait_class"] for row in rows(server, between, pid)] == ["Idle"]
    finally:
        configure(server, sample_rate=str(RATE_HZ))


@every_major
def test_a_row_says_who_and_which_query_since_when(server: Server) -> None:
    with sleeping(server, setup="set application_name = 'x'") as pid:
        (activity,) = rows(server, "select * from pg_stat_activity where pid = %s", pid)
        row = looks_until(server, pid, "PgSleep")[-1]
    assert row["backend_type"] == "client backend"
    assert row["leader_pid"] is None
    assert row["database_oid"] == activity["datid"]
    assert row["user_oid"] == activity["usesysid"]
    assert row["query_start"] == activity["query_start"]
    assert row["query_id"] == activity["query_id"] is not None


@every_major
def test_an_idle_session_is_counted_and_has_no_row(server: Server) -> None:
    before = rows(server, "select now() as at")[0]["at"]
    connections = [server.connect() for _ in range(20)]
    looks = sampler(server)["looks"]
    assert eventually(lambda: sampler(server)["looks"] > looks + 5)
    pids = [connection.info.backend_pid for connection in connections]
    for connection in connections:
        connection.close()
    assert not rows(
        server,
        "select * from pgflash_active_sessions where pid = any(%s) and sampled_at > %s"
        " and (state = 'idle' or wait_event = 'ClientRead')",
        pids,
        before,
    )
    idle = rows(
        server,
        "select max(idle_sessions) as most from pgflash_sample_minutes(%s, 'infinity')",
        before,
    )
    assert idle[0]["most"] > 10


def napping_in_parallel(server: Server) -> AbstractContextManager[int]:
    """A session whose only parallel worker sleeps; its pid."""
    forced = rows(
        server,
        "select name from pg_settings"
        " where name in ('debug_parallel_query', 'force_parallel_mode')",
    )[0]["name"]
    rows(
        server,
        "create or replace function nap() returns int parallel safe language plpgsql"
        " as 'begin perform pg_sleep(600); return 1; end'",
    )
    return sleeping(server, "select nap()", setup=f"set {forced} = on")


@every_major
def test_a_parallel_worker_names_its_leader(server: Server) -> None:
    with napping_in_parallel(server) as leader:
        naps = "select 1 as one from pgflash_active_sessions where leader_pid = %s"
        assert eventually(lambda: bool(rows(server, f"{naps} and wait_event = 'PgSleep'", leader)))
        looks_until(server, leader, "ExecuteGather")
    found = rows(
        server,
        "select distinct backend_type, wait_event, wait_class, query_id"
        " from pgflash_active_sessions where leader_pid = %s and wait_event = 'PgSleep'",
        leader,
    )
    (of_leader,) = rows(
        server,
        "select distinct query_id from pgflash_active_sessions where pid = %s"
        " and wait_event_type = 'IPC'",
        leader,
    )
    assert found == [
        {
            "backend_type": "parallel worker",
            "wait_event": "PgSleep",
            "wait_class": "Application",
            "query_id": of_leader["query_id"],
        }
    ]


@every_major
def test_a_worker_has_its_type_though_the_postmaster_stores_its_pid_late(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash", settings=SETTINGS, start=False)
    shim = compile_shim(make_server_dir(server.base / "shim"), "fork", SLOW_FORK)
    server.start({"LD_PRELOAD": str(shim)})
    rows(server, "create extension pgflash")
    types = "select backend_type from pgflash_active_sessions where leader_pid = %s"
    with napping_in_parallel(server) as leader:
        assert eventually(lambda: len(rows(server, types, leader)) > RATE_HZ)
    assert {row["backend_type"] for row in rows(server, types, leader)} == {"parallel worker"}
    unnamed = "select processes from pgflash_backend_cpu where backend_type = %s and processes > 0"
    assert eventually(lambda: not rows(server, unnamed, "background worker"))


@every_major
def test_a_commit_that_waits_for_a_standby_is_in_class_commit(server: Server) -> None:
    server.configure({"synchronous_standby_names": "nobody"})
    server.reload()
    with repeating(server, "update item set n = n + 1") as pid:
        try:
            found = looks_until(server, pid, "SyncRep")
        finally:
            server.configure({"synchronous_standby_names": None})
            server.reload()
    assert {row["wait_class"] for row in found if row["wait_event"] == "SyncRep"} == {"Commit"}
    waited_s = sum(row["seconds"] for row in found if row["wait_event"] == "SyncRep")
    with server.connect() as connection:
        assert commit_wait_s(connection, 600) >= 0.99 * waited_s > 0
        assert commit_wait_s(connection, 0) == 0


def test_the_summary_is_the_rows_added_up_by_the_minute(server: Server) -> None:
    with sleeping(server) as pid:
        assert eventually(lambda: len(sessions_of(server, pid)) > 10)
    (period,) = rows(
        server,
        "select min(sampled_at) as since, max(sampled_at) as until from pgflash_active_sessions",
    )
    columns = (
        "backend_type, database_oid, user_oid, query_id, state,"
        " wait_event_type, wait_event, wait_class"
    )
    summary = rows(
        server,
        f"select bucket, {columns}, samples, seconds"
        " from pgflash_sample_summary(%s, %s) order by 1, 2, 3, 4, 5, 6, 7, 8, 9",
        period["since"],
        period["until"],
    )
    added = rows(
        server,
        f"select date_trunc('minute', sampled_at) as bucket, {columns}, count(*) as samples,"
        " sum(seconds) as seconds from pgflash_active_sessions"
        " where sampled_at >= %s and sampled_at < %s group by 1, 2, 3, 4, 5, 6, 7, 8, 9"
        " order by 1, 2, 3, 4, 5, 6, 7, 8, 9",
        period["since"],
        period["until"],
    )
    # Floating-point numbers added in another order differ in their last digits.
    seconds = [pytest.approx(row.pop("seconds")) for row in added]
    assert [row.pop("seconds") for row in summary] == seconds
    assert summary == added
    assert sum(row["samples"] for row in summary) > 10


# ---- cadence


def test_the_rate_follows_a_reload_and_time_switched_off_is_a_gap_without_misses(
    server: Server,
) -> None:
    configure(server, sample_rate="0")
    assert eventually(lambda: sampler(server)["rate_hz"] == 0)
    before = sampler(server)
    time.sleep(0.5)
    assert sampler(server)["looks"] == before["looks"]

    configure(server, sample_rate="200")
    assert eventually(lambda: sampler(server)["looks"] > before["looks"])
    begin = sampler(server)
    assert begin["rate_hz"] == 200
    assert begin["gap_seconds"] - before["gap_seconds"] >= 0.5

    def keeps_pace() -> bool:
        """Watch for half a second; the test itself may be late in it."""
        first_at = time.monotonic()
        first = sampler(server)
        watched_from = time.monotonic()
        time.sleep(0.5)
        watched_s = time.monotonic() - watched_from
        last = sampler(server)
        made = last["looks"] - first["looks"]
        assert made <= 200 * (time.monotonic() - first_at) + 2
        return bool(made + last["missed_looks"] - first["missed_looks"] >= 0.8 * 200 * watched_s)

    # On a busy machine it misses some samples, but not in every half second.
    assert eventually(keeps_pace)
    configure(server, sample_rate=str(RATE_HZ))
    assert eventually(lambda: sampler(server)["rate_hz"] == RATE_HZ)


def test_reloads_do_not_put_looks_off(server: Server) -> None:
    configure(server, sample_rate="5")
    assert eventually(lambda: sampler(server)["rate_hz"] == 5)
    before = sampler(server)["looks"]

    def reloaded() -> bool:
        for _ in range(10):  # more often than it samples
            server.reload()
            time.sleep(0.01)
        return bool(sampler(server)["looks"] - before >= 4)

    assert eventually(reloaded)
    configure(server, sample_rate=str(RATE_HZ))
    assert eventually(lambda: sampler(server)["rate_hz"] == RATE_HZ)


def test_a_sampler_that_was_stopped_leaves_a_gap_and_no_idle_spell(server: Server) -> None:
    stopped_s = 1.0
    # The reading lies between what is known before and after it, on a machine of any speed.
    earlier = sampler(server)
    (now,) = rows(server, "select clock_timestamp() as at")
    before, begin = sampler(server), time.monotonic()
    os.kill(before["pid"], signal.SIGSTOP)
    try:
        time.sleep(stopped_s)
    finally:
        os.kill(before["pid"], signal.SIGCONT)
    assert eventually(lambda: sampler(server)["looks"] > before["looks"] + 5)
    after, took_s = sampler(server), time.monotonic() - begin
    (minutes,) = rows(
        server,
        "select sum(gap_seconds) as gap, sum(seconds) as seconds, sum(missed_looks) as missed"
        " from pgflash_sample_minutes(%s, 'infinity')",
        now["at"],
    )
    later = sampler(server)

    def grown(first: Row, last: Row, name: str) -> float:
        return float(last[name] - first[name])

    gap = grown(before, after, "gap_seconds")
    assert stopped_s - 2 / RATE_HZ <= gap <= took_s + 2 / RATE_HZ
    # Each gap is a whole number of samples, rounded down.
    missed = grown(before, after, "missed_looks")
    assert RATE_HZ * (stopped_s - 2 / RATE_HZ) - 1 <= missed <= RATE_HZ * gap
    # A sample stores its gap in whole milliseconds.
    rounded = 0.001 * grown(earlier, later, "looks")
    assert gap - rounded <= minutes["gap"] <= grown(earlier, later, "gap_seconds")
    assert missed <= minutes["missed"] <= grown(earlier, later, "missed_looks")
    # The time that samples represent and the gaps between them add up to all the time. A sample's
    # time stamp is a little after the moment that it represents, more so where it had to wait.
    known = minutes["seconds"] + minutes["gap"]
    least, most = after["newest_at"] - now["at"], later["newest_at"] - earlier["newest_at"]
    assert least.total_seconds() - 0.1 <= known <= most.total_seconds() + 0.1


@every_major
def test_a_sampler_that_was_ended_is_started_again_and_keeps_what_it_had(server: Server) -> None:
    before = sampler(server)
    with server.connect() as connection:
        os.kill(before["pid"], signal.SIGTERM)
        assert eventually(lambda: sampler(server)["pid"] not in (None, before["pid"]))
        # The first look of the new one adds what was missed.
        assert eventually(lambda: sampler(server)["missed_looks"] > before["missed_looks"])
        assert connection.execute("select 1").fetchone() == (1,)
    after = sampler(server)
    assert after["oldest_at"] == before["oldest_at"]
    assert after["cpu_seconds"] >= before["cpu_seconds"]


@every_major
def test_a_sampler_that_was_killed_comes_back_with_the_server(server: Server) -> None:
    before = sampler(server)
    os.kill(before["pid"], signal.SIGKILL)

    def is_back() -> bool:
        try:
            now = sampler(server)
        except psycopg.Error:
            return False
        return bool(now["running"] and now["pid"] != before["pid"] and now["looks"] > 0)

    assert eventually(is_back)
    assert sampler(server)["oldest_at"] > before["newest_at"]
    assert "pgflash sampler" in {title for _pid, title in process_titles(server)}


def test_the_ring_wraps_and_what_is_in_it_stays_whole(server: Server) -> None:
    server.stop()
    server.configure({"pgflash.sample_memory": "64kB", "pgflash.sample_rate": "1000"})
    server.start()
    with sleeping(server) as pid:
        looks_until(server, pid, "PgSleep")
        first = sampler(server)["oldest_at"]
        assert eventually(lambda: sampler(server)["oldest_at"] > first)
        still_there = 0
        for _ in range(20):
            asleep = "from pgflash_active_sessions where pid = %s and wait_event = 'PgSleep'"
            found = rows(server, f"select sample_id, backend_type {asleep} order by sample_id", pid)
            ids = [row["sample_id"] for row in found]
            assert ids == sorted(set(ids))
            assert {row["backend_type"] for row in found} <= {"client backend"}
            # A reader that is too slow misses the samples that left the ring meanwhile, and nothing
            # else.
            oldest = rows(server, f"select min(sample_id) as id {asleep}", pid)[0]["id"]
            kept = [one for one in ids if oldest is not None and one >= oldest]
            assert not kept or kept == list(range(ids[-1] - len(kept) + 1, ids[-1] + 1))
            still_there += len(kept)
        assert still_there > 100
        view = sampler(server)
    used = 40 * (view["looks_kept"] + view["records_kept"])
    assert view["looks_kept"] < view["looks"]
    assert 0.9 * view["ring_bytes"] < used <= view["ring_bytes"]
    assert view["ring_bytes"] <= 64 * 1024
    server.stop()
    server.configure({"pgflash.sample_memory": None, "pgflash.sample_rate": str(RATE_HZ)})
    server.start()


# ---- processors


def stat_seconds(pid: int) -> tuple[float, float]:
    """Return the CPU time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / tick, children / tick


def alive_seconds(server: Server) -> float:
    seconds = 0.0
    for pid in server.child_pids():
        with suppress(OSError):  # it may be gone by now
            seconds += stat_seconds(pid)[0]
    return seconds


@every_major
def test_processor_time_is_booked_to_its_type_and_all_of_it_is_there(server: Server) -> None:
    def used(backend_type: str) -> float:
        found = rows(
            server,
            "select cpu_seconds from pgflash_backend_cpu where backend_type = %s",
            backend_type,
        )
        return float(found[0]["cpu_seconds"]) if found else 0.0

    def total() -> float:
        found = rows(server, "select sum(cpu_seconds) as s from pgflash_backend_cpu")
        return float(found[0]["s"])

    postmaster = server.postmaster_pid
    assert postmaster is not None

    def spent() -> float:
        """Return the CPU time of all; one that ends meanwhile is counted twice, not never."""
        return alive_seconds(server) + sum(stat_seconds(postmaster))

    # The CPU time of the start, before the first sample, is charged to no session.
    total_before, spent_before = total(), spent()
    before = used("client backend")
    with server.connect() as connection:
        connection.execute("select count(*) from generate_series(1, 4000000)")
        worked = stat_seconds(connection.info.backend_pid)[0]
        assert worked > 0.1
        assert eventually(lambda: used("client backend") - before >= worked - 0.02)
    for _ in range(20):  # too short to be seen
        rows(server, "select count(*) from generate_series(1, 100000)")
    assert eventually(lambda: used("unattributed") > 0)
    assert eventually(lambda: total() - total_before >= 0.9 * (spent() - spent_before) - 0.1)
    booked = total()
    assert booked <= spent() + 0.1


# ---- rights, and none of it


@every_major
def test_others_see_their_own_sessions_only(server: Server) -> None:
    rows(server, "create role watcher login in role pg_monitor")
    rows(server, "create role nobody_special login")
    with sleeping(server, setup="set role nobody_special") as own, sleeping(server) as other:
        looks_until(server, other, "PgSleep")
        # SET ROLE does not change whose session it is.
        found = [row for row in looks_until(server, own, "PgSleep") if row["wait_event"]]
        assert {row["user_oid"] for row in found} == {10}
    assert seen_by(server, "nobody_special") == set()
    with server.connect() as connection:
        connection.execute("set role nobody_special")
        for query in (
            "select * from pgflash_sampler",
            "select * from pgflash_backend_cpu",
            "select * from pgflash_sample_summary('-infinity', 'infinity')",
            "select * from pgflash_sample_minutes('-infinity', 'infinity')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(query)
        connection.execute("set role watcher")
        connection.execute("select * from pgflash_sampler, pgflash_backend_cpu")
        connection.execute("select * from pgflash_sample_summary('-infinity', 'infinity')")

    assert {own, other} <= seen_by(server, "watcher")

    with psycopg.connect(server.conninfo(), user="nobody_special", autocommit=True) as mine:
        pids: list[tuple[int]] = []

        def seen() -> bool:
            mine.execute("select pg_sleep(0.05)")
            pids[:] = mine.execute("select distinct pid from pgflash_active_sessions").fetchall()
            return bool(pids)

        assert eventually(seen)
        assert pids == [(mine.info.backend_pid,)]


@every_major
def test_without_memory_there_is_no_sampler(server: Server) -> None:
    server.stop()
    server.configure({"pgflash.sample_memory": "0"})
    server.start()
    assert "pgflash sampler" not in {title for _pid, title in process_titles(server)}
    for query in (
        "select * from pgflash_sampler",
        "select * from pgflash_active_sessions",
        "select * from pgflash_backend_cpu",
        "select * from pgflash_sample_summary('-infinity', 'infinity')",
        "select * from pgflash_sample_minutes('-infinity', 'infinity')",
    ):
        assert rows(server, query) == []
    server.stop()
    server.configure({"pgflash.sample_memory": None})
    server.start()
