# SPDX-License-Identifier: PostgreSQL
"""A server read once a second, with the extension and without: the values are those it counts."""

import time
from collections.abc import Iterator

import pytest

from pgflash.analyze.live import sample
from pgflash.collect.live import LiveReader
from pgflash.model.live import Sample
from pgflash.session import SessionError, connect
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import eventually
from support.sampled import sleeping


@pytest.fixture(scope="module")
def with_extension(pgflash_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"})
    with server.connect() as connection:
        connection.execute("create schema odd_place")
        connection.execute("create extension pgflash schema odd_place")
        connection.execute(
            "create table t as select n, repeat('x', 900) from generate_series(1, 9000) n"
        )
        connection.execute("create role nobody login")
    yield server
    factory.close()


@pytest.fixture(scope="module")
def plain(pg_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pg_install)
    server = factory()
    with server.connect() as connection:
        connection.execute(
            "create table t as select n, repeat('x', 900) from generate_series(1, 9000) n"
        )
    yield server
    factory.close()


def over(server: Server) -> tuple[LiveReader, Sample]:
    """Return the activity while a session slept and another committed 50 times and read."""
    with connect(server.conninfo()) as connection, sleeping(server):
        reader = LiveReader(connection)
        await_look(reader)  # which sees who is asleep
        before = reader.read()
        with server.connect() as other:
            pid = other.info.backend_pid
            for _ in range(50):
                other.execute("select txid_current()")
            other.execute("checkpoint")
            other.execute("select count(*) from t")
        # A session reports its last counts when it ends.
        there = "select from pg_stat_activity where pid = %s"
        assert eventually(lambda: not connection.execute(there, [pid]).fetchall())
        await_look(reader)
        found = sample(before, reader.read(), number=1)
        assert found is not None
        return reader, found


def await_look(reader: LiveReader) -> None:
    """Wait for the sampler's next sample, if there is a sampler."""
    newest = reader._newest_look()
    assert newest is None or eventually(lambda: reader._newest_look() != newest)


@pytest.mark.extension
def test_a_second_of_a_server_with_the_extension(with_extension: Server) -> None:
    reader, found = over(with_extension)
    server = reader.server
    assert (server.schema, server.sampler, server.database) == ("odd_place", True, "postgres")
    assert server.cores
    assert server.missing == {}
    assert found.commits_s * found.elapsed_s >= 50
    # One session slept all the time, in every sample; another was active for an instant.
    assert found.aas is not None
    assert found.aas["Application"] == pytest.approx(1.0)
    assert "Idle" not in found.aas
    assert "System I/O" not in found.aas
    # 9000 rows of 900 bytes are 8.1 MB; 16 MB of shared_buffers may have them.
    assert found.requests_s["wal"] > 0
    assert set(found.bytes_s) <= {"page cache", "flash", "disk", "disk writes", "wal", "temp"}
    assert found.wal_bytes_s is not None
    assert found.wal_bytes_s > 0
    assert found.active >= 1
    assert found.cache is not None


@pytest.mark.extension
def test_what_is_read_is_what_the_views_show(with_extension: Server) -> None:
    with connect(with_extension.conninfo()) as connection:
        reader = LiveReader(connection)
        reading = reader.read()
        shown = {
            str(source): (calls, size)
            for source, calls, size in connection.execute(
                "select source, sum(calls)::float8, sum(bytes)::float8 from odd_place.pgflash_io "
                "where file_class = 'data' and operation = 'read' group by 1"
            )
        }
        # The view was asked later, and asking reads catalogs.
        for source, (calls, size) in shown.items():
            assert reading.flows[source].calls <= calls <= reading.flows[source].calls + 200
            assert reading.flows[source].bytes <= size
            timed = sum(reading.latencies[source].values())
            assert timed == pytest.approx(reading.flows[source].calls, abs=200)


@pytest.mark.extension
def test_a_second_of_a_plain_server_and_what_it_lacks(plain: Server) -> None:
    reader, found = over(plain)
    assert reader.server.extension_version == ""
    assert {"requests by source", "latency", "flash cache", "waits"} <= set(reader.server.missing)
    assert found.commits_s * found.elapsed_s >= 50
    assert found.aas is not None
    assert found.aas["Application"] == pytest.approx(1.0, abs=0.01)
    assert found.cache is None
    assert found.latency == {}
    assert {"disk", "temp"} <= set(found.bytes_s)


@pytest.mark.extension
def test_writes_of_a_plain_server_are_those_of_all_its_processes(plain: Server) -> None:
    with connect(plain.conninfo()) as connection:
        reader = LiveReader(connection)
        if "writes" in reader.server.missing:
            return  # before 16, PostgreSQL does not count them
        with plain.connect() as other:
            other.execute("update t set n = n + 1")
            other.execute("checkpoint")
        written = (
            "select sum(coalesce(writes, 0) + coalesce(extends, 0))::float8 from pg_stat_io "
            "where object = 'relation'"
        )
        by_checkpointer = f"{written} and backend_type = 'checkpointer'"
        assert eventually(lambda: (connection.execute(by_checkpointer).fetchone() or (0,))[0] > 0)
        (at_least,) = connection.execute(written).fetchone() or (None,)
        assert reader.read().flows["disk writes"].calls >= at_least


def test_looks_of_the_sampler_are_taken_once_each(with_extension: Server) -> None:
    with connect(with_extension.conninfo()) as connection:
        reader = LiveReader(connection)
        begin, seconds, covered = reader._newest, 0.0, 0.0
        with sleeping(with_extension):
            rounds = 0
            while rounds < 4 or seconds == 0:  # the sampler may stand still for a while
                time.sleep(0.3)
                rounds += 1
                reading = reader.read()
                seconds += sum(w.seconds for w in reading.waits if w.event == "Timeout:PgSleep")
                covered += reading.covered_s
        time_range = (begin, reader._newest)
        (slept,) = (
            connection.execute(
                "select sum(seconds)::float8 from odd_place.pgflash_active_sessions "
                "where sampled_at >= %s and sampled_at < %s and wait_event = 'PgSleep'",
                time_range,
            ).fetchone()
            or ()
        )
        (known,) = (
            connection.execute(
                "select sum(seconds)::float8 from odd_place.pgflash_sample_minutes(%s, %s)",
                time_range,
            ).fetchone()
            or ()
        )
    assert slept > 0
    assert seconds == pytest.approx(slept)
    assert covered == pytest.approx(known)


def test_a_role_without_rights_is_told_which(with_extension: Server) -> None:
    with (
        connect(f"{with_extension.conninfo()} user=nobody") as connection,
        pytest.raises(SessionError, match="may not see the statistics"),
    ):
        LiveReader(connection)


def test_pg_monitor_is_enough(with_extension: Server) -> None:
    with with_extension.connect() as connection:
        connection.execute("create role watcher login in role pg_monitor")
        connection.execute("grant usage on schema odd_place to watcher")
    with connect(f"{with_extension.conninfo()} user=watcher") as connection:
        reading = LiveReader(connection).read()
    assert "wal" in reading.flows
