# SPDX-License-Identifier: PostgreSQL
"""The views and functions of the extension: what they show, and to whom."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ASSERTIONS, ClusterFactory
from support.items import create_items
from support.patience import eventually
from support.uring import reads_by_uring

#: Each with the function behind it.
VIEWS = {
    "pgflash_cache": "pgflash_cache_row",
    "pgflash_cache_advice": "pgflash_cache_advice_rows",
    "pgflash_cache_devices": "pgflash_cache_devices_rows",
    "pgflash_relations": "pgflash_relations_rows",
    "pgflash_io": "pgflash_io_rows",
    "pgflash_io_histogram": "pgflash_io_histogram_rows",
    "pgflash_io_relations": "pgflash_io_relation_rows",
    "pgflash_io_tablespaces": "pgflash_io_tablespace_rows",
    "pgflash_wal": "pgflash_wal_row",
}

OF_THE_SAMPLER = ("pgflash_active_sessions", "pgflash_backend_cpu", "pgflash_sampler")

#: Oracle's ten statistics of its flash cache, in its order.
ORACLES_TEN = [
    "inserts",
    "eviction_invalidated",
    "eviction_aged_out",
    "eviction_buffer_pinned",
    "insert_skip_not_current",
    "insert_skip_writer_overloaded",
    "insert_skip_exists",
    "insert_skip_not_useful",
    "insert_skip_modification",
    "insert_skip_corrupt",
]

#: Rows of the table that tests read; about 1400 blocks, more than shared_buffers hold.
ROWS = 20_000


@pytest.fixture(scope="module")
def shared_server(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    """One server for all tests here: making one takes longer than most of them."""
    factory = ClusterFactory(pgflash_install)
    server = create_cached(factory, pgflash_install, settings={"pgflash.warm_restart": "off"})
    make_table(server)
    yield server
    factory.close()


@pytest.fixture
def cached(shared_server: CachedServer) -> CachedServer:
    """The server with an empty cache that serves."""
    if shared_server.server.running:
        shared_server.server.stop()
    shared_server.start()
    assert eventually(lambda: shared_server.view()["mode"] == "serve")
    return shared_server


def rows(server: CachedServer, query: str) -> list[tuple[Any, ...]]:
    with server.server.connect() as connection:
        return connection.execute(query).fetchall()


def make_table(server: CachedServer) -> None:
    with server.server.connect() as connection:
        create_items(connection, ROWS)


def read_at_random(server: CachedServer, *, count: int = 400) -> None:
    """Read single rows all over the table, the same ones in every call."""
    with server.server.connect() as connection:
        for i in range(count):
            connection.execute("select pad from item where id = %s", [i * 7919 % ROWS + 1])


def warm(server: CachedServer) -> None:
    """Read until most of the blocks are cached: a slow writer leaves out many."""

    def cached() -> bool:
        before = server.view()["hits"]
        read_at_random(server)
        after = server.view()
        return bool(after["used_slots"] > 500 and after["hits"] - before > 450)

    assert eventually(cached)


def test_oracles_ten_stand_together_in_oracles_order(cached: CachedServer) -> None:
    columns = list(cached.view())
    first = columns.index("inserts")
    assert columns[first : first + 10] == ORACLES_TEN


@pytest.mark.extension
def test_every_view_column_and_function_has_a_comment(cached: CachedServer) -> None:
    columns = rows(
        cached,
        "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relname like 'pgflash%' and c.relkind in ('r', 'v') and a.attnum > 0"
        " and c.relname <> 'pgflash_snapshot_last'"  # for nobody to look at
        " and col_description(c.oid, a.attnum) is null",
    )
    views = rows(
        cached,
        "select relname from pg_class where relname like 'pgflash%' and relkind in ('r', 'v')"
        " and obj_description(oid, 'pg_class') is null",
    )
    functions = rows(
        cached,
        "select proname from pg_proc where proname like 'pgflash%'"
        " and obj_description(oid, 'pg_proc') is null",
    )
    assert (columns, views, functions) == ([], [], [])


def test_a_fresh_cache_is_empty_and_says_what_it_is(cached: CachedServer) -> None:
    view = cached.view()
    assert view["cache_file"] == str(cached.cache_file)
    assert view["size_bytes"] == 64 * 1024 * 1024
    assert view["slots"] * 8192 == view["size_bytes"]
    assert view["metadata_bytes"] > 0
    assert view["used_slots"] * 8192 == view["used_bytes"]


@pytest.mark.extension
def test_reads_that_repeat_are_hits_and_are_counted_everywhere(cached: CachedServer) -> None:
    warm(cached)
    before = cached.view()
    assert before["inserts"] > 100
    assert before["used_slots"] > 100
    read_at_random(cached)
    after = cached.view()
    hits = after["hits"] - before["hits"]
    assert hits > 400
    assert 0 < after["hit_ratio"] < 1
    assert after["flash_read_mean_ms"] > 0
    assert after["disk_read_mean_ms"] > 0
    # Only waits are timed; a block that was read ahead had arrived before.
    from_flash = after["hits"] - after["staged_hits"]
    assert after["flash_reads"] >= from_flash
    assert 0 < sum(after["flash_read_histogram"]) <= after["flash_reads"]
    # With io_uring, only those reads are timed that a process waited for.
    timed = sum(after["disk_read_histogram"])
    assert (1 if reads_by_uring(cached.server.install) else after["disk_reads"]) <= timed
    assert after["disk_reads"] > 0

    ((reads, writes, read_bytes, write_bytes),) = rows(
        cached, "select reads, writes, read_bytes, write_bytes from pgflash_cache_devices"
    )
    assert reads >= from_flash
    assert read_bytes == reads * 8192
    assert write_bytes == writes * 8192

    found = rows(
        cached,
        "select sum(hits), sum(misses), sum(cached_blocks), sum(disk_read_time_ms)"
        " from pgflash_relations where relation in ('item'::regclass, 'item_pkey'::regclass)",
    )
    item_hits, misses, cached_blocks, disk_read_time_ms = found[0]
    assert item_hits >= hits // 2
    assert misses > 100
    assert 100 < cached_blocks <= after["used_slots"]
    assert disk_read_time_ms > 0


@pytest.mark.extension
def test_relations_are_named_by_fork_and_shared_catalogs_are_among_them(
    cached: CachedServer,
) -> None:
    warm(cached)
    found = set(rows(cached, "select relation::text, fork from pgflash_relations"))
    assert ("item", "main") in found
    assert ("item_pkey", "main") in found
    databases = rows(
        cached,
        "select count(*) from pgflash_relations r join pg_class c on c.oid = r.relation"
        " where c.relisshared",
    )
    assert databases[0][0] > 0


@pytest.mark.extension
def test_the_blocks_of_a_relation_are_those_that_are_counted(cached: CachedServer) -> None:
    warm(cached)
    found = rows(
        cached,
        "select b.fork, count(*), count(distinct b.block), max(b.block)"
        " from pgflash_cache_blocks('item') b group by 1",
    )
    counted = rows(
        cached, "select fork, cached_blocks from pgflash_relations where relation::text = 'item'"
    )
    assert {fork: blocks for fork, blocks, _, _ in found} == {
        fork: blocks for fork, blocks in counted if blocks > 0
    }
    ((size,),) = rows(cached, "select pg_relation_size('item') / 8192")
    main = next(row for row in found if row[0] == "main")
    assert main[1] == main[2] > 200
    assert main[3] < size
    shares = rows(
        cached,
        "select file_blocks, cached_share from pgflash_relations where relation::text = 'item'"
        " and fork = 'main'",
    )
    assert shares == [(size, pytest.approx(main[1] / size))]


@pytest.mark.extension
def test_the_blocks_of_all_databases_are_shown_if_no_relation_is_named(
    cached: CachedServer,
) -> None:
    warm(cached)
    ((shared, here),) = rows(
        cached,
        "select count(*) filter (where database = 0), count(*) filter (where database ="
        " (select oid from pg_database where datname = current_database()))"
        " from pgflash_cache_blocks(null)",
    )
    assert shared > 0
    assert here > 200
    assert rows(cached, "select * from pgflash_cache_blocks('pg_tables')") == []
    with cached.server.connect() as connection:
        connection.execute("select pgflash_cache_clear()")
    assert rows(cached, "select * from pgflash_cache_blocks('item')") == []


@pytest.mark.extension
def test_the_bitmaps_of_the_list_have_the_blocks_of_the_cache(cached: CachedServer) -> None:
    warm(cached)
    # Now blocks only leave, when they are changed.
    rows(cached, "select pgflash_cache_set_mode('passthrough')")
    listed = (
        "select l.*, n from pgflash_cache_list() l, generate_series(0, length(bitmap) * 8 - 1) n"
    )

    apart: list[set[Any]] = []

    def same() -> bool:
        # As sets: a block that two processes put in at once is there twice.
        blocks = set(rows(cached, "select * from pgflash_cache_blocks(null)"))
        found = rows(
            cached,
            "select tablespace, database, filenode, fork, segment::bigint * 131072 + n"
            f" from ({listed}) l where get_bit(bitmap, n) = 1",
        )
        bits = set(found)
        apart[:] = [bits - blocks, blocks - bits]
        return len(bits) > 200 and bits == blocks

    assert eventually(same), apart
    parts = rows(
        cached,
        "select array_agg(heat), bool_and(blocks = bit_count(bitmap) and heat between 0 and 3"
        " and get_byte(bitmap, length(bitmap) - 1) > 0)"
        " from pgflash_cache_list() group by tablespace, database, filenode, fork, segment",
    )
    assert all(right and heats == sorted(set(heats), reverse=True) for heats, right in parts)


@pytest.mark.extension
def test_relations_of_other_databases_are_not_shown(cached: CachedServer) -> None:
    warm(cached)
    with cached.server.connect() as connection:
        connection.autocommit = True
        connection.execute("create database elsewhere")
    with cached.server.connect("elsewhere") as connection:
        connection.execute("create extension pgflash")
        shown = connection.execute(
            "select count(*) from pgflash_relations where filenode ="
            " (select filenode from pgflash_relations where relation::text = 'item')"
        ).fetchone()
    assert shown == (0,)


@pytest.mark.extension
def test_a_written_block_is_refreshed_in_the_cache(cached: CachedServer) -> None:
    warm(cached)
    before = cached.view()["updates"]

    def refreshed() -> bool:
        """Write blocks: while the staging ring is full they leave the cache instead."""
        with cached.server.connect() as connection:
            connection.execute("update item set pad = repeat('y', 500) where id % 50 = 1")
            connection.commit()
            connection.autocommit = True
            connection.execute("checkpoint")
        return bool(cached.view()["updates"] > before)

    assert eventually(refreshed)
    cached.assert_serving()


def test_clear_drops_every_block(cached: CachedServer) -> None:
    warm(cached)
    assert cached.view()["used_slots"] > 100
    rows(cached, "select pgflash_cache_clear()")
    view = cached.view()
    # Blocks that this query reads itself may be back already.
    assert view["used_slots"] < 100
    assert view["clears"] == 1


def test_passthrough_answers_nothing_and_stays_warm(cached: CachedServer) -> None:
    warm(cached)
    rows(cached, "select pgflash_cache_set_mode('passthrough')")
    before = cached.view()
    assert before["mode"] == "passthrough"
    read_at_random(cached)
    view = cached.view()
    assert (view["hits"], view["inserts"]) == (before["hits"], before["inserts"])
    assert view["used_slots"] > 100
    rows(cached, "select pgflash_cache_set_mode('serve')")
    read_at_random(cached)
    assert cached.view()["hits"] > before["hits"]


def test_offline_lasts_until_the_server_restarts(cached: CachedServer) -> None:
    warm(cached)
    rows(cached, "select pgflash_cache_set_mode('offline')")
    assert cached.view()["mode"] == "offline"
    assert "set_mode" in cached.view()["mode_reason"]
    with pytest.raises(psycopg.Error, match="could not set the flash cache to mode"):
        rows(cached, "select pgflash_cache_set_mode('serve')")
    cached.server.stop()
    cached.start()
    assert eventually(lambda: cached.view()["mode"] == "serve")


@pytest.mark.parametrize("mode", ["on", "", "SERVE", "off"])
def test_an_unknown_mode_is_refused(cached: CachedServer, mode: str) -> None:
    with (
        cached.server.connect() as connection,
        pytest.raises(psycopg.Error, match="could not set the flash cache to mode"),
    ):
        connection.execute("select pgflash_cache_set_mode(%s)", [mode])
    assert cached.view()["mode"] == "serve"


def test_verify_compares_every_cached_block_with_its_file(cached: CachedServer) -> None:
    warm(cached)
    used = cached.view()["used_slots"]
    compared, mismatched = cached.verify()
    assert compared >= used - 5
    assert mismatched == 0


def blocks_on_disk(path: Path) -> Iterator[int]:
    yield from range(path.stat().st_size // 8192)


def test_verify_finds_a_file_that_was_changed_behind_the_servers_back(
    cached: CachedServer,
) -> None:
    warm(cached)
    with cached.server.connect() as connection:
        connection.autocommit = True
        connection.execute("checkpoint")
        row = connection.execute("select pg_relation_filepath('item')").fetchone()
    assert row is not None
    path = cached.server.data / row[0]
    with path.open("r+b") as file:
        for block in blocks_on_disk(path):
            file.seek(block * 8192 + 8191)
            file.write(b"!")
    compared, mismatched = cached.verify()
    assert compared > mismatched > 100
    view = cached.view()
    assert view["mode"] == "offline"
    assert view["verify_mismatches"] == mismatched
    assert eventually(
        lambda: "differed between cache and file" in cached.server.log_text(since_start=True)
    )
    assert row[0] in cached.server.log_text(since_start=True)


@pytest.mark.extension
def test_pg_monitor_reads_the_views_and_changes_nothing(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        connection.execute("create role watcher in role pg_monitor")
        connection.commit()
        connection.autocommit = True
        connection.execute("set role watcher")
        for view in VIEWS:
            assert connection.execute(f"select count(*) from {view}").fetchone() is not None
        for call in ("set_mode('offline')", "clear()", "verify()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select pgflash_cache_{call}")
    assert cached.view()["mode"] == "serve"


@pytest.mark.extension
def test_everybody_else_sees_nothing(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        connection.execute("create role nobody_special")
        connection.commit()
        connection.autocommit = True
        connection.execute("set role nobody_special")
        for view, function in VIEWS.items():
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select * from {view}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select * from {function}()")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("set pgflash.verify = 'off'")


def test_a_careless_grant_does_not_let_others_change_the_cache(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        connection.execute("create role somebody")
        connection.execute("grant execute on all functions in schema public to somebody")
        connection.commit()
        connection.autocommit = True
        connection.execute("set role somebody")
        for call in ("set_mode('offline')", "clear()", "verify()"):
            with pytest.raises(psycopg.Error, match="only a superuser"):
                connection.execute(f"select pgflash_cache_{call}")


@pytest.mark.extension
def test_a_server_that_has_just_started_stops_at_once(cached: CachedServer) -> None:
    """Workers are sending visitors into databases then, and must not sleep afterwards."""
    for _ in range(3):
        cached.server.stop()
        cached.start()
        cached.server.stop()
        said = cached.server.log_text(since_start=True)
        assert "received fast shutdown request" in said
        assert "received immediate shutdown request" not in said, "it had to be told again"
        cached.start()


@pytest.mark.extension
def test_without_preloading_the_functions_say_what_to_do(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install)
    with server.connect() as connection:
        connection.autocommit = True
        connection.execute("create extension pgflash")
        for query in (
            *(f"select * from {view}" for view in (*VIEWS, *OF_THE_SAMPLER)),
            "select pgflash_cache_clear()",
            "select pgflash_cache_verify()",
            "select pgflash_cache_set_mode('serve')",
        ):
            with pytest.raises(psycopg.Error, match="shared_preload_libraries"):
                connection.execute(query)


def test_the_servers_of_tests_have_assertions(pgflash_install: PgInstall) -> None:
    library = (pgflash_install.pkglibdir / "pgflash.so").read_bytes()
    for function in ASSERTIONS:
        assert function in library


def test_a_negative_control_says_what_it_is(
    broken_install: Any,  # noqa: ANN401 - a cached function
) -> None:
    library = (broken_install("WRITE").pkglibdir / "pgflash.so").read_bytes()
    assert b"negative control" in library
