# SPDX-License-Identifier: PostgreSQL
"""A stock server, of every major version, is read from outside; what it lacks is named."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash import api
from pgflash.collect import collect, system_identifier
from pgflash.model.snapshot import Section, SectionKind, SnapshotError
from pgflash.model.snapshot_sections import SECTIONS
from pgflash.session import SessionError, connect
from pgflash.store import FileStore, open_store
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import has_contrib
from support.cluster import ClusterFactory
from support.nested import check_nested, run_nested
from support.patience import eventually

#: Differences between major versions are tested on each of them, though the extension is not
#: needed.
every_major = pytest.mark.extension


@pytest.fixture(scope="module")
def server(pg_install: PgInstall) -> Iterator[Server]:
    """A server without the extension."""
    factory = ClusterFactory(pg_install)
    contrib = "pg_stat_statements" if has_contrib(pg_install, "pg_stat_statements") else ""
    server = factory(preload=contrib, settings={"track_io_timing": "on", "shared_buffers": "1MB"})
    if contrib:
        with server.connect() as connection:
            connection.execute("create extension pg_stat_statements")
    yield server
    factory.close()


def missing(sections: dict[str, Section]) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in sections["missing"].rows}


@every_major
def test_every_section_is_there_or_explained(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "app.snapshots"
    with server.connect() as connection:
        connection.execute(
            "create table t as select n, repeat('x', 500) as x from generate_series(1, 20000) n"
        )
        first, _dropped = api.snapshot(dsn=server.conninfo(), path=path)
        assert first.previous_id is None
        for _ in range(3):
            connection.execute("select count(x) from t")
        connection.execute("vacuum full t")
        connection.execute("select pg_stat_force_next_flush()")
    with server.connect() as connection:  # statistics are flushed when a session ends
        second, _dropped = api.snapshot(dsn=server.conninfo(), path=path)
    assert second.previous_id == first.id
    assert second.started_at == first.started_at
    assert second.extension_version == ""
    assert second.major == server.install.major

    with open_store(path=path) as store:
        sections = store.sections(second.id)
        said = missing(sections)
        assert not set(said) & set(sections)
        assert set(said) | set(sections) == set(SECTIONS)
        for name, section in sections.items():
            declared = SECTIONS[name].columns
            assert section.columns[: len(declared)] == declared, name
        assert "stock PostgreSQL does not have it" in said["io"]
        for name, since in {"stat_io": 16, "checkpointer": 17}.items():
            assert (name in sections) == (server.install.major >= since)
            assert (name in said) == (server.install.major < since)
        # The server is on this machine, since our session's process is visible here.
        assert {"host_cpu", "host_memory", "host_disks", "host_state"} <= set(sections)

        # 20,000 rows of 500 bytes are at least 1,250 pages, with buffers for 128.
        assert sections["relations"].kind is SectionKind.DELTA
        (row,) = (r for r in sections["relations"].records() if r["relation"] == "t")
        assert isinstance(row["blocks_read"], int)
        assert row["blocks_read"] >= 3 * 1250
        assert (row["schema"], row["relkind"], row["tablespace"]) == ("public", "r", "pg_default")
        (stats,) = (r for r in sections["relation_stats"].records() if r["relation"] == "t")
        assert (stats["database"], stats["schema"]) == ("postgres", "public")
        assert stats["seq_scans"] >= 3  # type: ignore[operator]
        # It was read a moment later.
        assert stats["blocks_looked_up"] >= row["blocks_read"] + row["blocks_hit"]  # type: ignore[operator]

        if has_contrib(server.install, "pg_stat_statements"):
            records = sections["statements"].records()
            ids = [r["query_id"] for r in records if isinstance(r["query_id"], int)]
            texts = store.queries(ids)
            assert "select count(x) from t" in texts.values()
            (number,) = (key for key, text in texts.items() if text == "select count(x) from t")
            (record,) = (r for r in records if r["query_id"] == number)
            assert record["calls"] == 3
            assert (record["read_time_ms"] or 0) > 0  # type: ignore[operator]
        else:
            assert "pg_stat_statements" in said["statements"]


@every_major
def test_the_rest_of_nested_statements_is_apart(server: Server, tmp_path: Path) -> None:
    if not has_contrib(server.install, "pg_stat_statements"):
        pytest.skip("this build has no pg_stat_statements")
    path = tmp_path / "s"
    api.snapshot(dsn=server.conninfo(), path=path)
    with server.connect() as connection:
        run_nested(connection)
    second, _dropped = api.snapshot(dsn=server.conninfo(), path=path)
    with open_store(path=path) as store:
        check_nested(store.sections(second.id)["statements"])


@every_major
def test_an_old_pg_stat_statements_costs_only_its_section(server: Server, tmp_path: Path) -> None:
    """As after pg_upgrade, where nobody has updated the extension."""
    if not has_contrib(server.install, "pg_stat_statements"):
        pytest.skip("this build has no pg_stat_statements")
    with server.connect() as connection:
        connection.execute("create database old")
    with server.connect("old") as connection:
        connection.execute("create extension pg_stat_statements version '1.8'")
    path = tmp_path / "s"
    for _ in range(2):
        taken, _dropped = api.snapshot(dsn=server.conninfo("old"), path=path)
    with open_store(path=path) as store:
        sections = store.sections(taken.id)
    assert '"toplevel"' in missing(sections)["statements"]
    assert "relations" in sections


@every_major
def test_a_crash_is_seen_though_the_postmaster_lives(
    cluster: ClusterFactory, pg_install: PgInstall, tmp_path: Path
) -> None:
    server = cluster(install=pg_install)
    path = tmp_path / "s"
    api.snapshot(dsn=server.conninfo(), path=path)
    with server.connect() as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGKILL)

    def collected() -> bool:
        try:
            api.snapshot(dsn=server.conninfo(), path=path)
        except SessionError:
            return False
        return True

    assert eventually(lambda: "reinitializing" in server.log_text() and collected())
    with open_store(path=path) as store:
        before, after = store.list()
    assert after.previous_id is None
    assert after.started_at > before.started_at


@every_major
def test_rights_are_asked_for_first(server: Server, tmp_path: Path) -> None:
    with server.connect() as connection:
        connection.execute("create role nobody_special login")
        dsn = server.conninfo() + " user=nobody_special"
        try:
            with pytest.raises(SessionError, match="may not see the statistics") as caught:
                api.snapshot(dsn=dsn, path=tmp_path / "s")
            assert "GRANT pg_monitor TO nobody_special" in caught.value.hint
            connection.execute("grant pg_monitor to nobody_special")
            head, _dropped = api.snapshot(dsn=dsn, path=tmp_path / "s")
            with open_store(path=tmp_path / "s") as store:
                assert "settings" in store.sections(head.id)
        finally:
            connection.execute("drop owned by nobody_special; drop role nobody_special")


def test_a_database_without_the_extension_says_what_to_do(server: Server) -> None:
    with pytest.raises(SnapshotError, match="the extension pgflash is not in database") as caught:
        open_store(dsn=server.conninfo())
    assert "--store" in caught.value.hint


def test_a_server_that_is_not_there_is_said_in_a_sentence() -> None:
    with pytest.raises(SessionError, match="could not connect") as caught:
        connect("host=/nowhere/at/all")
    assert "--dsn" in caught.value.hint
    for wrong in ("nonsense", "connect_timeout=soon"):
        with pytest.raises(SessionError, match="connection string is wrong") as caught:
            connect(wrong)
        assert caught.value.exit_code == 2


def test_a_server_that_is_too_old_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.session.MAJOR_MIN", server.install.major + 1)
    with pytest.raises(SessionError, match=f"PostgreSQL {server.install.major}, which is too old"):
        connect(server.conninfo())


def test_nothing_is_written_to_the_server(server: Server, tmp_path: Path) -> None:
    """A session that may only read is enough; nothing is reset."""
    query = "select min(stats_reset), sum(xact_commit) > 0 from pg_stat_database"
    with connect(server.conninfo() + " options='-c default_transaction_read_only=on'") as session:
        before = session.execute(query).fetchone()
        cluster = system_identifier(session)
        with FileStore.create(tmp_path / "s") as store, store.adding(cluster) as last:
            store.add(collect(session, last, cluster=cluster))
        assert session.execute(query).fetchone() == before


def test_a_cancelled_collection_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with connect(server.conninfo()) as session, FileStore.create(tmp_path / "s") as store:
        cluster = system_identifier(session)

        def collect_and_fail() -> None:
            with server.connect() as other:
                other.execute("begin; lock table pg_catalog.pg_class in access exclusive mode")
                session.execute("set statement_timeout = '200ms'")
                with store.adding(cluster) as last:
                    store.add(collect(session, last, cluster=cluster))

        with pytest.raises(SessionError, match="statement timeout"):
            collect_and_fail()
        assert store.list() == ()
