# SPDX-License-Identifier: PostgreSQL
"""A tenant writes a statement, and waits until an administrator opens the page about it.

Planning a statement computes its immutable functions, with the rights of the one who asks for the
plan.  The function here counts in a sequence, which outlives any transaction.
"""

from collections.abc import Iterator
from urllib.parse import urlencode

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import until
from support.served import served

_TRAP = """
create sequence public.called;
grant usage on sequence public.called to public;
create function public.trap() returns int language plpgsql immutable as $$
begin
    perform pg_catalog.nextval('public.called'::pg_catalog.regclass);
    return 1;
end $$;
"""


@pytest.fixture
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    if not (pgflash_install.sharedir / "extension" / "pg_stat_statements.control").exists():
        pytest.skip("a build without contrib")
    factory = ClusterFactory(pgflash_install)
    one = factory(
        preload="pgflash,pg_stat_statements",
        settings={"pgflash.snapshot_interval": "0", "compute_query_id": "on"},
    )
    with one.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("create extension pg_stat_statements")
        connection.execute("create role watcher login in role pg_monitor")
        connection.execute("create role tenant login")
        connection.execute("grant create on schema public to tenant")
    yield one
    factory.close()


def calls(server: Server) -> int:
    with server.connect() as connection:
        row = connection.execute("select last_value, is_called from public.called").fetchone()
    assert row is not None
    return int(row[0]) if row[1] else 0


def test_no_function_of_a_tenant_runs_for_the_page_about_a_statement(server: Server) -> None:
    with psycopg.connect(f"{server.conninfo()} user=tenant", autocommit=True) as tenant:
        tenant.execute(_TRAP)
        tenant.execute("select public.trap() as marked")
    with server.connect() as connection:
        (number,) = (
            connection.execute(
                "select queryid::text from pg_stat_statements where query like '%trap() as marked'"
            ).fetchone()
            or ()
        )
    before = calls(server)
    assert before > 0
    with served(f"{server.conninfo()} user=watcher", interval_s=0.1) as page:
        until(lambda: page.collector.status.state == "live")
        answer = page.ask(f"/?{urlencode({'query': number})}")
        assert answer.code == 200
        assert "select public.trap() as marked" in answer.text
        assert "No plan is shown" in answer.text
    assert calls(server) == before
    # The trap works: had the page asked for a plan, it would have run with the page's rights.
    if server.install.major >= 16:
        with psycopg.connect(f"{server.conninfo()} user=watcher", autocommit=True) as watcher:
            watcher.execute("explain (generic_plan) select public.trap() as marked")
        assert calls(server) > before
