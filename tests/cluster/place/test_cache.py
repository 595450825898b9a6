# SPDX-License-Identifier: PostgreSQL
"""The flash cache still covers moved relations: policies outlive a move, and nothing gets stale."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgflash.model.plan import Move, MoveKind, Plan
from pgflash.place import Cluster, Journal, apply_plan, moves_for, plan_for, undo_plan
from pgflash.place.journal import read_plan, write_plan
from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.patience import eventually
from support.policies import what_decides

TABLE = """
create table t (id int primary key, v int, pad text);
insert into t select n, n, repeat('x', 900) from generate_series(1, 2000) n;
"""

#: Row by row: a scan in order would fill nothing.
READ = """
set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off;
set enable_mergejoin = off; set enable_memoize = off;
select count(pad) from generate_series(1, 1500) g,
 lateral (select pad from t where id = g * 797 % 2000 + 1) row
"""


@pytest.fixture(scope="module")
def cached(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    """A server that compares every hit, with a tablespace the emulator plays as a disk."""
    factory = ClusterFactory(pgflash_install)
    cached = create_cached(factory, pgflash_install)
    folder = make_server_dir(cached.space / "flash")
    with cached.server.connect() as connection:
        connection.execute(f"create tablespace flash location '{folder}'")
        connection.execute(TABLE)
    yield cached
    factory.close()


def plan(cached: CachedServer, *asked: Move) -> Path:
    path = cached.server.base.parent / f"plan-{asked[0].kind}.json"
    with Cluster(cached.server.conninfo()) as cluster:
        moves = [move for one in asked for move in moves_for(cluster, one)]
        write_plan(path, plan_for(cluster, moves, id="plan", now=datetime.now(UTC)))
    return path


def apply(cached: CachedServer, path: Path) -> Plan:
    apply_plan(Journal(path, read_plan(path)), cached.server.conninfo())
    return read_plan(path)


def undo(cached: CachedServer, path: Path) -> None:
    undo_plan(Journal(path, read_plan(path)), cached.server.conninfo())


def policies(cached: CachedServer) -> dict[str, str]:
    """Read the table, and return the policies that the cache has for the files it has now."""
    with cached.server.connect() as connection:
        connection.execute(READ)
        rows = connection.execute(
            "select relation::text, policy from pgflash_relations where fork = 'main' and "
            "relation::text like 't%%' and filenode = pg_relation_filenode(relation)"
        ).fetchall()
    return dict(rows)


def assert_policies(cached: CachedServer, wanted: dict[str, str]) -> None:
    """Fail, with the reasons, unless the policies in force come to be these."""
    came = eventually(lambda: policies(cached) == wanted)
    with cached.server.connect() as connection:
        assert came, f"not {wanted} but {policies(cached)}:\n{what_decides(connection)}"


def test_policies_outlive_a_move_and_no_block_gets_stale(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        connection.execute("select pgflash_set_cache_policy('t', 'keep')")
        connection.execute("select pgflash_set_cache_policy('t_pkey', 'keep')")
    kept = {"t": "keep", "t_pkey": "keep"}
    assert_policies(cached, kept)
    path = plan(cached, Move(kind=MoveKind.TABLE, to="flash", name="t"))
    apply(cached, path)
    assert_policies(cached, kept)
    with cached.server.connect() as connection:
        connection.execute("update t set v = v + 1")
    assert_policies(cached, kept)
    undo(cached, path)
    assert_policies(cached, kept)
    with cached.server.connect() as connection:
        assert connection.execute("select sum(v - id) from t").fetchone() == (2000,)
    assert_never_stale(cached, compared_min=300)


def test_a_plan_may_say_keep_and_take_it_back(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        connection.execute("create table u (n int)")
    path = plan(cached, Move(kind=MoveKind.KEEP, to="keep", name="public.u"))
    assert apply(cached, path).records[0].was == "default"
    listed = "select policy from pgflash_cache_policy where name = 'public.u'"
    with cached.server.connect() as connection:
        assert connection.execute(listed).fetchone() == ("keep",)
        undo(cached, path)
        assert connection.execute(listed).fetchone() in {None, ("default",)}
