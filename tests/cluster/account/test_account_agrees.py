# SPDX-License-Identifier: PostgreSQL
"""The accounting against all others that count: the kernel, strace, PostgreSQL.

Bytes and calls must agree exactly; times as far as two clocks around the same call can.
"""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.account import (
    blocks,
    counted_server,
    flush,
    io,
    load,
    one,
    relation,
    rows,
    session,
    total,
    wait_until_alone,
)
from support.patience import PATIENCE_S, eventually, until

pytestmark = pytest.mark.extension


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """One server for all tests here."""
    with counted_server(pgflash_install) as made:
        yield made


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
    # Allocated space (16 and later) is not written.
    written = by_kernel("wchar")
    assert 10_000_000 < counted("write") <= written <= counted("write", "extend")


def trace(server: Server, pid: int, folder: Path) -> subprocess.Popen[bytes]:
    """Trace the file calls of a process; skip the test where that is not possible."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace: apt-get install strace")
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
        tracer.wait(timeout=PATIENCE_S)
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

STATIO = "select {} from pg_statio_user_tables where relname = 'item'"


def test_reads_of_a_table_agree_with_pg_statio(server: Server) -> None:
    # PostgreSQL 15 counts an added block as a read one.
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
        # Their clock is read around ours: a busy processor may stop a session in between.
        until(lambda: relations_agree(worker, observer, query, bytes_known=bytes_known))


def relations_agree(
    worker: psycopg.Connection[Any],
    observer: psycopg.Connection[Any],
    query: str,
    *,
    bytes_known: bool,
) -> bool:
    """Run a load; fail unless all counts agree, and say whether the times are alike."""
    wait_until_alone(worker, observer)
    # The blocks that the query itself needs are read once: afterwards they are cached.
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
    alike = []
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

        # Sessions cannot know how many writes a checkpoint leaves to them.
        assert ours("bytes") == theirs("_bytes") >= 8192, kind
        if bytes_known:
            assert ours("calls") == theirs("s"), kind
        assert ours("time_ms") <= theirs("_ms") + 1, kind
        alike.append(0.5 * theirs("_ms") - 5 < ours("time_ms"))
    return all(alike)


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
        # Their clock is read around ours: a busy processor may stop a session in between.
        until(lambda: wal_agrees(worker))
        (row,) = rows(worker, "select * from pgflash_wal")
        assert row["write_mean_ms"] == pytest.approx(row["write_time_ms"] / row["writes"])
        assert row["sync_mean_ms"] == pytest.approx(row["sync_time_ms"] / row["syncs"])


def wal_agrees(worker: psycopg.Connection[Any]) -> bool:
    """Run a load; fail unless all counts agree, and say whether the times are alike."""
    # PostgreSQL counts since the cluster was created, and some processes report late.
    apart: list[tuple[int, int]] = []

    def settled() -> bool:
        theirs, ours = wal_of_postgresql(worker), wal(worker)
        apart.append((theirs[0] - ours[0], theirs[1] - ours[1]))
        return len(apart) > 60 and len(set(apart[-60:])) == 1

    def agree() -> bool:
        theirs, ours = wal_of_postgresql(worker), wal(worker)
        return (theirs[0] - ours[0], theirs[1] - ours[1]) == apart[-1]

    wait_until_alone(worker)
    assert eventually(settled)
    theirs_before, before = wal_of_postgresql(worker), wal(worker)
    load(worker)
    assert eventually(agree), (wal_of_postgresql(worker), wal(worker), apart[-1])
    after, theirs_after = wal(worker), wal_of_postgresql(worker)
    assert after[1] - before[1] >= 300
    theirs_ms = theirs_after[2] - theirs_before[2]
    assert after[2] - before[2] <= theirs_ms + 1
    return 0.5 * theirs_ms < after[2] - before[2]


def test_wal_is_written_once_but_for_what_is_wasted(server: Server) -> None:
    with session(server) as worker:
        worker.execute("select pg_switch_wal()")
        begin = rows(worker, "select *, pg_current_wal_lsn() as at from pgflash_wal")[0]
        load(worker)
        end = rows(worker, "select *, pg_current_wal_lsn() as at from pgflash_wal")[0]
        went_on = one(worker, f"select pg_wal_lsn_diff('{end['at']}', '{begin['at']}')")
    written = end["write_bytes"] - begin["write_bytes"]
    wasted = end["wastage_bytes"] - begin["wastage_bytes"]
    # Except for the pages in which it begins and ends.
    assert abs(written - wasted - went_on) <= 2 * 8192
    # 300 commits of some hundred bytes each wrote a page again and again.
    assert wasted > 200 * 8192
