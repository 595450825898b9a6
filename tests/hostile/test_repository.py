# SPDX-License-Identifier: PostgreSQL
"""What a tenant stores in the extension's tables draws nothing to him, and ends no server.

He has all privileges on all tables of his database, and no other right.
"""

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest

from pgflash.api.periods import report
from pgflash.model.snapshot import SnapshotError
from pgflash.store import open_store
from pgflash_lab.account import as_server_user
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.channel import create_primary
from support.cluster import ClusterFactory
from support.patience import until
from support.script_traps import as_user
from support.sections import BY_HAND
from support.served import served

pytestmark = pytest.mark.extension

MINE = "grant all on all tables in schema public to tenant"
OF_THE_FUTURE = """
insert into pgflash_snapshots
	(taken_at, started_at, took_ms, origin, server_version_num, extension_version)
values ('2190-01-01', now(), 0, 'schedule', 180000, '0.2')
"""
MORE = """
select (select count(*) from pgflash_snapshots) > (select count(*) from before) + 1
"""
#: Rows of a hundred megabytes each, which are little when compressed, many rows that are valid and
#: name no block, and the head of their list.
LARGE = """
insert into pgflash_stored_list
select 1663, 5, 70000 + n, 'main', 0, 3, convert_to(repeat('a', 100000000), 'UTF8')
  from generate_series(1, 8) n;
insert into pgflash_stored_list
select 1663, 5, 80000 + n, 'main', 0, 3, decode(repeat('00', 16384), 'hex')
  from generate_series(1, 40000) n;
update pgflash_stored_list_head set list_number = list_number + 1;
"""
#: A hundred megabytes in a section.
HUGE = """
update pgflash_snapshot_sections set content = jsonb_build_object(
    'columns', '["file_class"]'::jsonb, 'rows', jsonb_build_array(jsonb_build_array(
    repeat('a', 100000000))))
 where section = 'io' and snapshot_id = 2
"""


def await_more(session: psycopg.Connection[Any]) -> None:
    """Wait for two more snapshots than there were before."""
    until(lambda: session.execute(MORE).fetchone() == (True,))


def kept_in(server: Server) -> str:
    """Return the database that keeps snapshots, by the log."""
    lines = [line for line in server.log_text().splitlines() if "keeping snapshots in" in line]
    return lines[-1].split('"')[1] if lines else ""


def test_snapshots_stay_where_no_tenant_reads_them(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Neither an older database nor a later snapshot brings everybody's statements to a tenant."""
    server = cluster(
        install=pgflash_install, preload="pgflash", settings={"pgflash.snapshot_interval": "1s"}
    )
    with server.connect() as session:
        session.execute("create role tenant login")
        session.execute("create database hers owner tenant")
        session.execute("create database app")
    for name in ("app", "hers"):
        with server.connect(name) as session:
            session.execute("create extension pgflash")
            session.execute(MINE)
            session.execute("select pg_reload_conf()")
            until(lambda: kept_in(server) == "app")
    with as_user(server, "tenant", "hers") as tenant:
        tenant.execute(OF_THE_FUTURE)
    for start in (server.reload, server.restart):
        start()
        with server.connect("app") as session:
            session.execute("create temporary table before as select from pgflash_snapshots")
            await_more(session)
        assert kept_in(server) == "app"
    with server.connect("hers") as session:
        assert session.execute("select count(*) from pgflash_snapshots").fetchone() == (1,)


def test_a_huge_section_is_not_read(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    server = cluster(install=pgflash_install, preload="pgflash", settings=BY_HAND)
    with server.connect() as session:
        session.execute("create extension pgflash")
        session.execute("create role tenant login")
        session.execute(MINE)
        begin = datetime.now(UTC)
        for _ in range(2):
            session.execute("select pgflash_snapshot()")
    dsn = server.conninfo()
    with as_user(server, "tenant", "postgres") as tenant:
        tenant.execute(HUGE)
    with pytest.raises(SnapshotError, match="section io is longer than any server's"):
        report(open_store(dsn=dsn))
    times = urlencode({"from": begin.isoformat(), "to": datetime.now(UTC).isoformat()})
    with served(dsn) as page:
        until(lambda: page.collector.status.state == "live")
        found = page.ask(f"/live/history?{times}").json
    assert found["missing"]["a section"] == "io of snapshot 2 is too long"


def test_a_list_with_huge_bitmaps_takes_no_memory(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_primary(cluster, pgflash_install)
    server = cached.server
    postmaster = server.postmaster_pid
    assert postmaster is not None
    with server.connect() as session:
        session.execute("create role tenant login")
        session.execute(MINE)
        status = Path(f"/proc/{postmaster}/status").read_text()
        used = int(status.split("VmSize:")[1].split()[0]) * 1024
        # Of processes to come: this session may make the rows.
        subprocess.run(
            [*as_server_user(), "prlimit", f"--as={used + (300 << 20)}:", f"--pid={postmaster}"],
            check=True,
        )
        session.execute("set role tenant")

        def are_noticed() -> bool:
            """A visit that had begun before replaces them by what is cached."""
            if "ignoring 8 invalid rows" in server.log_text():
                return True
            if not session.execute(
                "select from pgflash_stored_list where filenode between 70001 and 70008"
            ).rowcount:
                session.execute(LARGE)
            return False

        until(are_noticed)
    assert "out of memory" not in server.log_text()
