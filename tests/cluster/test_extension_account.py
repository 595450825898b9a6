"""The accounting against everybody else who counts: the kernel, strace, the emulator, PostgreSQL.

Bytes and calls must agree exactly; times as far as two clocks around the same call can.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash.lab.account import make_server_dir
from pgflash.lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server
from support.cached import create_cached, eventually
from support.cluster import ClusterFactory

pytestmark = pytest.mark.extension

Row = dict[str, Any]

#: So small that a table of some megabytes is read again and again.
SETTINGS = {
    "shared_preload_libraries": "pgflash",
    "shared_buffers": "1MB",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "track_io_timing": "on",
    "track_wal_io_timing": "on",
    "fsync": "on",
    "bgwriter_lru_maxpages": "0",
    "checkpoint_timeout": "1h",
    "max_wal_size": "4GB",
    # Nobody else shall read meanwhile.
    "pgflash.snapshot_interval": "0",
    "pgflash.sample_rate": "0",
}
ROWS = 20_000


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall, pg_install: PgInstall) -> Iterator[Server]:
    """One server for all tests here that do not need it set up otherwise."""
    factory = ClusterFactory(pgflash_install)
    made = factory(settings=read_by_sessions(pg_install, SETTINGS))
    with made.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute(
            "create table item as select n as id, repeat('x', 500) as pad"
            f" from generate_series(1, {ROWS}) n"
        )
        connection.execute("alter table item add primary key (id)")
    yield made
    factory.close()


def read_by_sessions(install: PgInstall, settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with which a session makes its reads itself."""
    return {**settings, "io_method": "sync"} if install.major >= 18 else settings


def session(server: Server) -> psycopg.Connection[Any]:
    """Return a session in which each statement is a transaction."""
    connection = server.connect()
    connection.autocommit = True
    return connection


def rows(connection: psycopg.Connection[Any], query: str) -> list[Row]:
    cursor = connection.execute(query)
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def io(connection: psycopg.Connection[Any]) -> dict[tuple[str, ...], Row]:
    """Return pgflash_io by its key."""
    key = ("backend_type", "file_class", "operation", "source")
    return {
        tuple(row[name] for name in key): row
        for row in rows(connection, "select * from pgflash_io")
    }


def total(
    counts: dict[tuple[str, ...], Row],
    number: str,
    *,
    before: dict[tuple[str, ...], Row] | None = None,
    backend_type: str | None = None,
    classes: tuple[str, ...] = ("data",),
    operations: tuple[str, ...] = ("read",),
) -> float:
    """Return a number's sum over rows of pgflash_io, less what it was before."""

    def one(of: dict[tuple[str, ...], Row]) -> float:
        return sum(
            float(row[number])
            for row in of.values()
            if backend_type in (None, row["backend_type"])
            and row["file_class"] in classes
            and row["operation"] in operations
        )

    return one(counts) - (one(before) if before is not None else 0)


def blocks(connection: psycopg.Connection[Any], name: str, kind: str = "read") -> int:
    """Return the blocks of a relation that were read, all its forks together."""
    size = one(
        connection,
        f"select sum({kind}_bytes) from pgflash_io_relations where relation = '{name}'"
        " and database_oid <> 0",
    )
    assert size % 8192 == 0
    return int(size) // 8192


def relation(connection: psycopg.Connection[Any], name: str) -> Row:
    """Return the row of a relation's main fork."""
    (row,) = rows(
        connection,
        "select * from pgflash_io_relations"
        f" where relation = '{name}' and fork = 'main' and database_oid <> 0",
    )
    return row


def one(connection: psycopg.Connection[Any], query: str) -> Any:  # noqa: ANN401
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def wait_until_alone(*sessions: psycopg.Connection[Any]) -> None:
    """Wait for other sessions to end: only then PostgreSQL counts all that they did."""
    query = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    assert eventually(lambda: one(sessions[0], query) == len(sessions))


def load(connection: psycopg.Connection[Any], *, updates: int = 300) -> None:
    """Read the table, look rows up, change some, all over it."""
    connection.execute("select count(*) from item")
    for i in range(updates):
        connection.execute(
            "update item set pad = repeat('y', 500) where id = %s", [i * 7919 % ROWS + 1]
        )
    # Numbers need no TOAST table, whose index PostgreSQL makes unseen by pg_stat_io.
    connection.execute("create temp table spill as select id, -id as o from item order by pad, o")
    connection.execute("drop table spill")


# ---- the kernel and strace ------------------------------------------------------


def process_io(pid: int) -> dict[str, int]:
    text = Path(f"/proc/{pid}/io").read_text()
    return {name: int(value) for name, value in re.findall(r"(\w+): (\d+)", text)}


def test_bytes_agree_with_the_kernels_count_of_the_process(server: Server) -> None:
    with session(server) as worker, session(server) as observer:
        pids = [worker.info.backend_pid, observer.info.backend_pid]
        worker.execute("set work_mem = '64kB'")
        load(worker, updates=10)
        wait_until_alone(worker, observer)
        io(observer)
        before = io(observer)
        kernel_before = [process_io(pid) for pid in pids]
        load(worker)
        kernel = [process_io(pid) for pid in pids]
        after = io(observer)

    def counted(*operations: str) -> float:
        return total(
            after,
            "bytes",
            before=before,
            backend_type="client backend",
            classes=("data", "temp relation", "temp", "wal", "wal init", "slru", "other"),
            operations=operations,
        )

    def by_kernel(name: str) -> int:
        return sum(now[name] - then[name] for now, then in zip(kernel, kernel_before, strict=True))

    # Beside files a process reads the signals that wake it, of 128 bytes each.
    read = by_kernel("rchar") - counted("read")
    assert counted("read") > 10_000_000
    assert read >= 0
    assert read % 128 == 0
    assert read < 100 * 128
    # What is allocated (16 and later) is not written.
    written = by_kernel("wchar")
    assert 10_000_000 < counted("write") <= written <= counted("write", "extend")


def trace(server: Server, pid: int, folder: Path) -> subprocess.Popen[bytes]:
    """Trace the file calls of a process; skip the test where that cannot be."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tracer = subprocess.Popen(
        [
            *("strace", "-y", "-o", folder / "calls", "-p", str(pid)),
            *("-e", "trace=pread64,preadv,pwrite64,pwritev"),
        ],
        stderr=subprocess.PIPE,
    )
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if b"attached" not in said:
        tracer.wait()
        pytest.skip(f"strace may not trace here: {said.decode().strip()}")
    return tracer


def traced(text: str, path: str) -> dict[str, tuple[int, int]]:
    """Return calls and bytes of reads and writes of a file."""
    found = {"pread": (0, 0), "pwrite": (0, 0)}
    for name, of, got in re.findall(r"^(\w+)\(\d+<([^>]*)>.*\) += (\d+)", text, re.M):
        kind = name.rstrip("v").removesuffix("64")
        if of.endswith(f"/{path}") and kind in found:
            calls, size = found[kind]
            found[kind] = (calls + 1, size + int(got))
    return found


def test_calls_and_bytes_of_a_relation_agree_with_strace(server: Server, tmp_path: Path) -> None:
    with session(server) as worker, session(server) as observer:
        worker.execute("create table traced as select * from item")
        worker.execute("select count(*) from item")
        path = one(worker, "select pg_relation_filepath('traced')")
        observer.execute("checkpoint")
        tracer = trace(server, worker.info.backend_pid, tmp_path)
        before = relation(observer, "traced")
        worker.execute("select count(*) from traced")
        for i in range(200):
            worker.execute(
                "update traced set pad = repeat('y', 500) where ctid = %s", [f"({i * 7},1)"]
            )
        worker.execute("select count(*) from item")
        after = relation(observer, "traced")
        tracer.send_signal(signal.SIGINT)
        tracer.wait(timeout=30)
        worker.execute("drop table traced")
    calls = traced((tmp_path / "calls").read_text(), path)
    assert calls["pread"] == (
        after["reads"] - before["reads"],
        after["read_bytes"] - before["read_bytes"],
    )
    assert calls["pread"][0] > 100
    changed = [
        (after[f"{kind}s"] - before[f"{kind}s"], after[f"{kind}_bytes"] - before[f"{kind}_bytes"])
        for kind in ("write", "extend")
    ]
    assert all(calls > 0 for calls, _bytes in changed)
    assert calls["pwrite"] == (changed[0][0] + changed[1][0], changed[0][1] + changed[1][1])


# ---- PostgreSQL's own ------------------------------------------------------------


def flush(connection: psycopg.Connection[Any]) -> None:
    """Let a session's own statistics be seen at once."""
    connection.execute("select pg_stat_force_next_flush()")
    connection.execute("select 1")


STATIO = "select {} from pg_statio_user_tables where relname = 'item'"


def test_reads_of_a_table_agree_with_pg_statio(server: Server) -> None:
    # PostgreSQL 15 takes a block that is added for one that is read.
    kinds = ("read", "extend") if server.install.major == 15 else ("read",)
    with session(server) as worker, session(server) as observer:
        for name, column in (("item", "heap_blks_read"), ("item_pkey", "idx_blks_read")):
            wait_until_alone(worker, observer)
            flush(worker)
            theirs_before = one(observer, STATIO.format(column))
            before = sum(blocks(observer, name, kind) for kind in kinds)
            load(worker)
            flush(worker)
            after = sum(blocks(observer, name, kind) for kind in kinds)
            theirs = one(observer, STATIO.format(column))
            assert after - before == theirs - theirs_before > 50


def test_relations_agree_with_pg_stat_io(server: Server) -> None:
    if server.install.major < 16:
        pytest.skip("PostgreSQL 15 has no pg_stat_io")
    bytes_known = server.install.major >= 18
    query = "select " + ", ".join(
        f"sum({kind}_bytes) as {kind}_bytes, sum({kind}s) as {kind}s, sum({kind}_time) as {kind}_ms"
        if bytes_known
        else f"sum({kind}s) * 8192 as {kind}_bytes, sum({kind}_time) as {kind}_ms"
        for kind in ("read", "write", "extend")
    )
    query += (
        " from pg_stat_io where backend_type = 'client backend'"
        " and object in ('relation', 'temp relation')"
    )
    with session(server) as worker, session(server) as observer:
        wait_until_alone(worker, observer)
        # What looking takes is read once: afterwards it is known.
        for _ in range(2):
            rows(observer, query)
            io(observer)
        for connection in (worker, observer):
            flush(connection)
        theirs_before = rows(observer, query)[0]
        before = io(observer)
        load(worker)
        for connection in (worker, observer):
            flush(connection)
        after = io(observer)
        theirs_after = rows(observer, query)[0]

    for kind in ("read", "write", "extend"):

        def ours(number: str, kind: str = kind) -> float:
            return total(
                after,
                number,
                before=before,
                backend_type="client backend",
                classes=("data", "temp relation"),
                operations=(kind,),
            )

        def theirs(number: str, kind: str = kind) -> float:
            return float(theirs_after[f"{kind}{number}"] or 0) - float(
                theirs_before[f"{kind}{number}"] or 0
            )

        assert ours("bytes") == theirs("_bytes") > 50_000, kind
        if bytes_known:
            assert ours("calls") == theirs("s"), kind
        # Their clock is read around ours.
        assert 0.5 * theirs("_ms") - 5 < ours("time_ms") <= theirs("_ms") + 1, kind


def test_syncs_of_relations_agree_with_pg_stat_io(server: Server) -> None:
    if server.install.major < 16:
        pytest.skip("PostgreSQL 15 has no pg_stat_io")
    query = "select sum(fsyncs) from pg_stat_io where object = 'relation'"
    with session(server) as worker:
        worker.execute("checkpoint")

        def theirs() -> int:
            return int(one(worker, query))

        assert eventually(
            lambda: (
                theirs()
                == total(io(worker), "calls", operations=("sync",), backend_type="checkpointer")
                > 0
            )
        )


def wal_of_postgresql(connection: psycopg.Connection[Any]) -> tuple[int, int, float]:
    """Return PostgreSQL's count of WAL writes and syncs, and their milliseconds."""
    flush(connection)
    row = connection.execute(
        "select sum(writes), sum(fsyncs), sum(write_time + fsync_time) from pg_stat_io"
        " where object = 'wal' and context = 'normal'"
        if connection.info.server_version >= 180000
        else "select wal_write, wal_sync, wal_write_time + wal_sync_time from pg_stat_wal"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1]), float(row[2])


def wal(connection: psycopg.Connection[Any]) -> tuple[int, int, float]:
    """Return ours."""
    (row,) = rows(connection, "select * from pgflash_wal")
    return row["writes"], row["syncs"], row["write_time_ms"] + row["sync_time_ms"]


def test_wal_agrees_with_postgresql(server: Server) -> None:
    with session(server) as worker:
        # PostgreSQL counts since the cluster was made, and some processes tell late.
        apart: list[tuple[int, int]] = []

        def settled() -> bool:
            theirs, ours = wal_of_postgresql(worker), wal(worker)
            apart.append((theirs[0] - ours[0], theirs[1] - ours[1]))
            return len(apart) > 60 and len(set(apart[-60:])) == 1

        wait_until_alone(worker)
        assert eventually(settled)
        theirs_before, before = wal_of_postgresql(worker), wal(worker)
        load(worker)

        def agree() -> bool:
            theirs, ours = wal_of_postgresql(worker), wal(worker)
            return (theirs[0] - ours[0], theirs[1] - ours[1]) == apart[-1]

        assert eventually(agree), (wal_of_postgresql(worker), wal(worker), apart[-1])
        after, theirs_after = wal(worker), wal_of_postgresql(worker)
        assert after[1] - before[1] >= 300
        # Their clock is read around ours.
        theirs_ms = theirs_after[2] - theirs_before[2]
        assert 0.5 * theirs_ms < after[2] - before[2] <= theirs_ms + 1
        (row,) = rows(worker, "select * from pgflash_wal")
        assert row["write_mean_ms"] == pytest.approx(row["write_time_ms"] / row["writes"])
        assert row["sync_mean_ms"] == pytest.approx(row["sync_time_ms"] / row["syncs"])


def test_wal_is_written_once_but_for_what_is_wasted(server: Server) -> None:
    with session(server) as worker:
        worker.execute("select pg_switch_wal()")
        begin = rows(worker, "select *, pg_current_wal_lsn() as at from pgflash_wal")[0]
        load(worker)
        end = rows(worker, "select *, pg_current_wal_lsn() as at from pgflash_wal")[0]
        went_on = one(worker, f"select pg_wal_lsn_diff('{end['at']}', '{begin['at']}')")
    written = end["write_bytes"] - begin["write_bytes"]
    wasted = end["wastage_bytes"] - begin["wastage_bytes"]
    # But for the pages that it begins and ends in.
    assert abs(written - wasted - went_on) <= 2 * 8192
    # 300 commits of some hundred bytes each wrote a page again and again.
    assert wasted > 200 * 8192


# ---- known devices ----------------------------------------------------------------


@pytest.fixture(scope="module")
def slow_disk(pgflash_install: PgInstall) -> Iterator[tuple[Server, Emulator]]:
    """Return a server whose relations lie on an emulated disk, its delays off."""
    factory = ClusterFactory(pgflash_install)
    server = factory(start=False)
    # The advice asks the kernel about reads of its own choice, at first about all.
    server.configure({**read_by_sessions(pgflash_install, SETTINGS), "pgflash.advice": "off"})
    with Emulator.create(
        server.base / "emulator.state",
        devices=[
            EmulatedDevice(
                name="disk",
                profile=DeviceProfile.named("sas15k-raid10-6"),
                paths=(server.data / "base", server.data / "global"),
            )
        ],
        owner=server.account.uid if server.account is not None else None,
        delays_on=False,
    ) as emulator:
        server.start(emulator.env)
        with session(server) as worker:
            worker.execute("create extension pgflash")
            worker.execute(
                "create table item as select n as id, repeat('x', 500) as pad"
                f" from generate_series(1, {ROWS}) n"
            )
            worker.execute("alter table item add primary key (id)")
            worker.execute("checkpoint")
        yield server, emulator
        factory.close()


def test_calls_and_times_agree_with_those_of_a_slow_disk(
    slow_disk: tuple[Server, Emulator],
) -> None:
    server, emulator = slow_disk
    with session(server) as worker:
        io(worker)
        emulator.on()
        emulator.reset()
        before = io(worker)
        begin = time.monotonic()
        for i in range(150):
            worker.execute("select pad from item where id = %s", [i * 7919 % ROWS + 1])
        took_ms = (time.monotonic() - begin) * 1000
        disk = emulator.stats().device("disk").reads
        after = io(worker)
        emulator.off()
        histogram = rows(
            worker,
            "select sum(calls) filter (where lower_us >= 1000) as slow"
            " from pgflash_io_histogram where file_class = 'data' and operation = 'read'"
            " and source = 'disk' and backend_type = 'client backend'",
        )[0]
    key = ("client backend", "data", "read", "disk")
    calls = after[key]["calls"] - before.get(key, {"calls": 0})["calls"]
    time_ms = after[key]["time_ms"] - before.get(key, {"time_ms": 0})["time_ms"]
    assert disk.count > 100
    assert calls == disk.count
    assert disk.mean_ms > 2
    # The disk's clock is read within that of the account, which is within ours.
    assert disk.latency_ms <= time_ms <= took_ms
    assert histogram["slow"] > 0.9 * disk.count


def test_sources_that_nobody_was_asked_for_are_told_by_time(
    slow_disk: tuple[Server, Emulator],
) -> None:
    """One table lies on the slow disk, the other in the page cache."""
    server, emulator = slow_disk
    space = make_server_dir(server.base / "space")
    with session(server) as worker:
        worker.execute(f"create tablespace memory location '{space}'")
        worker.execute("create table quick tablespace memory as select * from item")
        worker.execute("create index on quick (id) tablespace memory")
    # A disk without its delays has taught that disks are as fast as memory.
    server.stop()
    emulator.on()
    server.start(emulator.env)
    with session(server) as worker:
        for name in ("item", "quick"):
            worker.execute(f"select pad from {name} where id = 1")
        before = {name: relation(worker, name) for name in ("item", "quick")}
        asked_before = total(io(worker), "told_calls")
        for i in range(200):
            for name in ("item", "quick"):
                worker.execute(f"select pad from {name} where id = %s", [i * 7919 % ROWS + 1])
        emulator.off()
        asked = total(io(worker), "told_calls") - asked_before
        after = {name: relation(worker, name) for name in ("item", "quick")}
    for name, source in (("item", "disk_reads"), ("quick", "page_cache_reads")):
        reads = after[name]["reads"] - before[name]["reads"]
        assert reads > 100
        assert after[name][source] - before[name][source] > 0.95 * reads
    assert asked < 200


def test_many_sessions_at_once_lose_nothing(slow_disk: tuple[Server, Emulator]) -> None:
    server, emulator = slow_disk
    sessions = [session(server) for _ in range(4)]
    for worker in sessions:
        load(worker, updates=1)
    with session(server) as observer:
        io(observer)
        before = io(observer)
        emulator.reset()
        threads = [
            threading.Thread(target=load, args=[worker], kwargs={"updates": 100})
            for worker in sessions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        disk = emulator.stats().device("disk")
        after = io(observer)
    for worker in sessions:
        worker.close()
    classes = ("data", "temp relation", "temp")

    def ours(number: str, *operations: str) -> float:
        return total(after, number, before=before, classes=classes, operations=operations)

    assert (ours("calls", "read"), ours("bytes", "read")) == (disk.reads.count, disk.reads.bytes)
    assert disk.reads.count > 1000
    assert ours("calls", "write", "extend") >= disk.writes.count > 500


def test_reads_that_flash_serves_agree_with_the_cache(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install)
    with session(cached.server) as worker:
        worker.execute(
            "create table item as select n as id, repeat('x', 500) as pad"
            f" from generate_series(1, {ROWS}) n"
        )
        worker.execute("alter table item add primary key (id)")
        for _ in range(2):
            for i in range(300):
                worker.execute("select pad from item where id = %s", [i * 7919 % ROWS + 1])
        counts = io(worker)
        cache = rows(worker, "select * from pgflash_cache")[0]
    by_source = {
        source: sum(
            row["calls"]
            for row in counts.values()
            if (row["file_class"], row["source"], row["operation"]) == ("data", source, "read")
        )
        for source in ("disk", "flash", "page cache")
    }
    # The cache begins to serve after the accounting, and is asked a query later.
    assert by_source["flash"] > 300
    flash_bytes = total(
        {key: row for key, row in counts.items() if row["source"] == "flash"}, "bytes"
    )
    assert flash_bytes <= cache["hits"] * 8192
    assert flash_bytes >= (cache["hits"] - 50) * 8192
    assert abs(by_source["disk"] - cache["disk_reads"]) < 50
    told = sum(
        row["told_calls"]
        for row in counts.values()
        if row["file_class"] == "data" and row["operation"] == "read"
    )
    assert sum(by_source.values()) - told < 100


# ---- io workers -------------------------------------------------------------------


def test_a_read_by_an_io_worker_counts_for_who_asked(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    if pgflash_install.major < 18:
        pytest.skip("before PostgreSQL 18 everybody reads for himself")
    server = cluster(install=pgflash_install, settings=SETTINGS)
    with session(server) as worker:
        worker.execute("create extension pgflash")
        worker.execute(
            "create table item as select n as id, repeat('x', 500) as pad"
            f" from generate_series(1, {ROWS}) n"
        )
        worker.execute("checkpoint")
        before = io(worker)
        flush(worker)
        blocks_before = one(
            worker,
            "select pg_stat_get_blocks_fetched('item'::regclass)"
            " - pg_stat_get_blocks_hit('item'::regclass)",
        )
        for _ in range(3):
            worker.execute("select count(*) from item")
        flush(worker)
        after = io(worker)
        blocks = one(
            worker,
            "select pg_stat_get_blocks_fetched('item'::regclass)"
            " - pg_stat_get_blocks_hit('item'::regclass)",
        )
        pids = {
            row["backend_type"] for row in rows(worker, "select backend_type from pg_stat_activity")
        }
    assert "io worker" in pids
    assert (
        total(after, "bytes", before=before, backend_type="client backend")
        >= (blocks - blocks_before) * 8192
    )
    assert total(after, "worker_calls", before=before, backend_type="client backend") > 50
    assert total(after, "worker_time_ms", backend_type="client backend") > 0
    assert total(after, "calls", backend_type="io worker") == 0


# ---- on and off, ends and limits -----------------------------------------------------


def test_it_can_be_turned_off_and_on_while_the_server_runs(server: Server) -> None:
    with session(server) as worker, session(server) as observer:

        def turn(value: str) -> None:
            observer.execute(f"alter system set pgflash.account = {value}")
            observer.execute("select pg_reload_conf()")
            for connection in (worker, observer):
                assert eventually(
                    lambda connection=connection: (
                        one(  # type: ignore[misc]
                            connection, "show pgflash.account"
                        )
                        == value
                    )
                )

        load(worker, updates=10)
        turn("off")
        before = relation(observer, "item")
        load(worker, updates=10)
        off = relation(observer, "item")
        turn("on")
        load(worker, updates=10)
        on = relation(observer, "item")
    assert off == before
    assert on["reads"] > off["reads"]


def test_a_backend_that_is_killed_takes_no_count_with_it(server: Server) -> None:
    with session(server) as worker:
        worker.execute("select count(*) from item")
        before = relation(worker, "item")
        since = one(worker, "select stats_since from pgflash_wal")
        counts = io(worker)
        os.kill(worker.info.backend_pid, signal.SIGKILL)

    def answers() -> bool:
        with suppress(psycopg.OperationalError), session(server) as again:
            return bool(one(again, "select true"))
        return False

    assert eventually(lambda: "all server processes terminated" in server.log_text())
    assert eventually(answers)
    with session(server) as worker:
        assert one(worker, "select stats_since from pgflash_wal") == since
        after = relation(worker, "item")
        later = io(worker)
        assert after["reads"] >= before["reads"] > 0
        assert after["extend_bytes"] == before["extend_bytes"] > 0
        assert all(later[key]["calls"] >= row["calls"] for key, row in counts.items())
        reads = relation(worker, "item")["reads"]
        worker.execute("select count(*) from item")
        assert relation(worker, "item")["reads"] > reads


def test_more_relations_than_places_are_counted_together(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(
        install=pgflash_install,
        settings={
            **read_by_sessions(pgflash_install, SETTINGS),
            "pgflash.account_relations": "40",
        },
    )
    with session(server) as worker:
        worker.execute("create extension pgflash")
        for number in range(100):
            worker.execute(f"create table t{number} as select 1 as n")
        worker.execute("checkpoint")
        relations = rows(
            worker,
            "select coalesce(relation, '') = 'other' as other, relfilenumber is null as nobody,"
            " reads + writes + extends + syncs as calls from pgflash_io_relations",
        )
        spaces = rows(
            worker,
            "select sum(reads + writes + extends + syncs) as calls from pgflash_io_tablespaces",
        )
        assert [row["nobody"] for row in relations if row["other"]] == [True]
        assert len(relations) == 41
        assert next(row["calls"] for row in relations if row["other"]) > 100
        # The query between them reads, too.
        assert 0 <= spaces[0]["calls"] - sum(row["calls"] for row in relations) < 100


def test_a_dropped_relation_stays_in_the_totals(server: Server) -> None:
    spaces = "select extends from pgflash_io_tablespaces where tablespace = 'pg_default'"
    with session(server) as worker:
        worker.execute("create table gone as select * from item")
        worker.execute("checkpoint")
        filenode = one(worker, "select pg_relation_filenode('gone')")
        before = relation(worker, "gone")
        assert before["extends"] > 0
        assert before["syncs"] > 0
        assert one(worker, spaces) >= before["extends"]
        worker.execute("drop table gone")
        worker.execute("checkpoint")
        raw = rows(
            worker, f"select * from pgflash_io_relation_rows() where relfilenumber = {filenode}"
        )
        shown = rows(
            worker, f"select relation from pgflash_io_relations where relfilenumber = {filenode}"
        )
        assert {row["file_gone"] for row in raw} == {True}
        assert max(row["extends"] for row in raw) == before["extends"]
        assert {row["relation"] for row in shown} == {None}
        assert one(worker, spaces) >= before["extends"]


def test_a_rewritten_relation_begins_anew_and_the_old_file_is_kept(server: Server) -> None:
    with session(server) as worker:
        worker.execute("create table rewritten as select * from item")
        old = relation(worker, "rewritten")
        worker.execute("vacuum full rewritten")
        worker.execute("checkpoint")
        new = relation(worker, "rewritten")
        kept = rows(
            worker,
            "select * from pgflash_io_relation_rows()"
            f" where relfilenumber = {old['relfilenumber']} and fork = 'main'",
        )
        worker.execute("drop table rewritten")
    assert new["relfilenumber"] != old["relfilenumber"]
    assert [row["file_gone"] for row in kept] == [True]
    assert kept[0]["extend_bytes"] == old["extend_bytes"]


def test_the_views_agree_with_one_another(server: Server) -> None:
    with session(server) as worker:
        for _ in range(2):
            # Read at one moment; the second time nothing has to be read for it.
            found = rows(
                worker,
                """
                with io as materialized (select * from pgflash_io_rows()),
                     buckets as materialized (select * from pgflash_io_histogram_rows()),
                     spaces as materialized (select * from pgflash_io_tablespace_rows()),
                     relations as materialized (select * from pgflash_io_relation_rows())
                select (select sum(calls) from io) as calls,
                       (select sum(calls) from buckets) as in_buckets,
                       (select sum(calls) from io where file_class = 'data') as data_calls,
                       (select sum(reads + writes + extends + syncs) from spaces) as in_spaces,
                       (select sum(reads + writes + extends + syncs) from relations)
                           as in_relations,
                       (select sum(bytes) from io where file_class = 'data') as data_bytes,
                       (select sum(read_bytes + write_bytes + extend_bytes) from relations)
                           as relation_bytes
                """,
            )[0]
    assert found["calls"] == found["in_buckets"] > 0
    assert found["data_calls"] == found["in_spaces"] == found["in_relations"]
    assert found["data_bytes"] == found["relation_bytes"]


def test_off_at_the_start_and_nothing_else_on_leaves_the_server_alone(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(
        install=pgflash_install,
        settings={
            "shared_preload_libraries": "pgflash",
            "pgflash.account": "off",
            "pgflash.advice": "off",
        },
    )
    with session(server) as worker:
        worker.execute("create extension pgflash")
        worker.execute("alter system set pgflash.account = on")
        worker.execute("select pg_reload_conf()")
        assert eventually(lambda: one(worker, "show pgflash.account") == "on")
        worker.execute("create table item as select 1 as n")
        for view in ("io", "io_histogram", "io_relations", "io_tablespaces"):
            assert rows(worker, f"select * from pgflash_{view}") == []
        assert one(worker, "select stats_since from pgflash_wal") is None
