# SPDX-License-Identifier: PostgreSQL
"""pgbench's TPC-B for tests: load it, run it, and check that its sums agree.

Each transaction adds one amount to an account, a teller and a branch, and writes it into the
history; so four sums are equal after any number of transactions, finished or interrupted.
"""

import subprocess
from pathlib import Path

from pgflash_lab.server import Server
from support.cached import client_program, run_client
from support.patience import PATIENCE_S

CLIENTS = 4

_SUMS = """select (select sum(abalance) from pgbench_accounts),
    (select sum(tbalance) from pgbench_tellers),
    (select sum(bbalance) from pgbench_branches),
    (select coalesce(sum(delta), 0) from pgbench_history),
    (select count(*) from pgbench_accounts)"""

#: Files that are created and removed meanwhile, by each client its own.
_SCRATCH = """drop table if exists scratch_:client_id;
create table scratch_:client_id as
    select i, repeat('x', 200) as pad from generate_series(1, 300) i;
create index on scratch_:client_id (i);
truncate scratch_:client_id;
insert into scratch_:client_id select i, repeat('y', 200) from generate_series(1, 500) i;
select 1 / (count(*) = 500)::int from scratch_:client_id where pad like 'y%';
"""

#: A lookup far away from the updates, so that blocks enter and leave shared_buffers, and the same
#: row is read in two ways.
_LOOK_UP = """\\set aid random(1, 100000 * :scale)
select abalance from pgbench_accounts where aid = :aid;
"""


def load_tpcb(server: Server, *, scale: int = 1) -> None:
    """Create TPC-B's tables; one scale is 13 MB."""
    run_client(server, "pgbench", "--initialize", f"--scale={scale}", "--quiet", "postgres")


def run_tpcb(server: Server, *, seconds: int) -> None:
    """Run TPC-B together with single-row look-ups; fail if any client fails."""
    arguments = ("--no-vacuum", f"--client={CLIENTS}", "--jobs=1", f"--time={seconds}")
    script = _write_script(server, "look_up.sql", _LOOK_UP)
    done = run_client(
        server,
        "pgbench",
        *(*arguments, "--builtin=tpcb-like@2", f"--file={script}@1", "--max-tries=1"),
        "postgres",
        timeout_s=seconds + PATIENCE_S,
    )
    assert "number of failed transactions: 0 " in done.stdout, done.stdout


def start_tpcb(server: Server, *, rate: int | None = None) -> subprocess.Popen[str]:
    """Start TPC-B, with files created and removed meanwhile, for as long as its server lives.

    RATE limits its transactions a second.
    """
    script = _write_script(server, "scratch.sql", _SCRATCH)
    return server.popen(
        [
            client_program(server.install, "pgbench"),
            *("--no-vacuum", f"--client={CLIENTS}", "--jobs=1", "--time=600"),
            *(() if rate is None else (f"--rate={rate}",)),
            *("--builtin=tpcb-like@9", f"--file={script}@1", "postgres"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def end_load(load: subprocess.Popen[str]) -> None:
    """Wait for a load that has lost its server or is about to lose it."""
    try:
        load.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        load.kill()
        load.wait()


def _write_script(server: Server, name: str, text: str) -> Path:
    path = server.base / name
    path.write_text(text)
    path.chmod(0o644)
    return path


def count_history(server: Server) -> int:
    """Return how many transactions have been committed."""
    with server.connect() as connection:
        row = connection.execute("select count(*) from pgbench_history").fetchone()
    assert row is not None
    return int(row[0])


def assert_balanced(server: Server, *, scale: int = 1) -> None:
    """Fail unless accounts, tellers, branches and history agree, by table and by index."""
    with server.connect() as connection:
        connection.execute("set max_parallel_workers_per_gather = 0")
        by_table = connection.execute(_SUMS).fetchone()
        connection.execute("set enable_seqscan = off")
        connection.execute("set enable_bitmapscan = off")
        connection.execute("set enable_indexonlyscan = off")
        by_index = connection.execute(
            "select sum(abalance), count(*) from pgbench_accounts where aid > 0"
        ).fetchone()
    assert by_table is not None
    accounts, tellers, branches, history, count = by_table
    assert accounts == tellers == branches == history
    assert count == 100_000 * scale
    assert by_index == (accounts, count)
