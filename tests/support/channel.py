# SPDX-License-Identifier: PostgreSQL
"""Servers that warm one another by the stored list of cached blocks."""

import time
from collections.abc import Mapping
from typing import Any

import psycopg

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.patience import eventually, until
from support.standby import REPLICATION

STORING = {
    **REPLICATION,
    "pgflash.load_rate": "1GB",
    "pgflash.cache_list_interval": "1s",
    "log_min_messages": "debug1",
}
#: What a visit of a primary says that stored nothing.
IDLE = "the stored list of cached blocks was not written"
#: What a visit says that may not store.
STAYS = "the stored list of cached blocks stays as it is"

Session = psycopg.Connection[Any]


def create_primary(
    cluster: ClusterFactory, install: PgInstall, *, settings: Mapping[str, str] | None = None
) -> CachedServer:
    """Return a server with a table in its cache, which has stored the list of its blocks."""
    cached = create_cached(cluster, install, settings={**STORING, **(settings or {})})
    with cached.server.connect() as session:
        create_item(session)
        cache_item(session)
        # The launcher looks for the extension again.
        session.execute("select pg_reload_conf()")
        until(lambda: stored_blocks(session) > 1000)
    return cached


def create_item(session: Session) -> None:
    session.execute("create table item (id int primary key, pad text)")
    session.execute("insert into item select n, repeat('x', 500) from generate_series(1, 20000) n")
    session.execute("vacuum analyze item")
    session.execute("checkpoint")


def cache_item(session: Session) -> None:
    session.execute("select pgflash_cache_load('item')")
    until(
        lambda: (
            session.execute(
                "select from pgflash_cache_load_progress where state in ('waiting', 'loading')"
            ).fetchall()
            == []
        )
    )


def one(session: Session, query: str) -> Any:  # noqa: ANN401
    row = session.execute(query).fetchone()
    return None if row is None else row[0]


def stored_blocks(session: Session) -> int:
    return int(one(session, "select coalesce(sum(bit_count(bitmap)), 0) from pgflash_stored_list"))


def number(session: Session) -> int | None:
    found = one(session, "select list_number from pgflash_stored_list_head")
    return None if found is None else int(found)


def list_of(session: Session) -> tuple[str, str, float] | None:
    """Return origin, state and warmth of the server's list."""
    return session.execute(
        "select origin, state, coalesce(warmth, 0) from pgflash_cache_warmth"
    ).fetchone()


def is_warm(session: Session) -> bool:
    found = list_of(session)
    return found is not None and found[:2] == ("repository", "done") and found[2] > 0.9


def await_warm(session: Session) -> None:
    assert eventually(lambda: is_warm(session)), list_of(session)


def set_interval(cached: CachedServer, interval: str) -> None:
    """Change how often lists are stored; copies of the server keep their own.

    After "0", no visitor that had begun before is still storing one.
    """
    cached.server.configure({"pgflash.cache_list_interval": interval})
    cached.server.reload()
    visitors = "select from pg_stat_activity where backend_type = 'pgflash stored list visitor'"
    with cached.server.connect() as session:

        def nobody_stores() -> bool:
            """Look for a while: the launcher may have asked for one just before it was told."""
            for _ in range(10):
                time.sleep(0.2)
                if session.execute(visitors).rowcount:
                    return False
            return True

        until(lambda: one(session, "show pgflash.cache_list_interval") == interval)
        if interval == "0":
            until(nobody_stores)


def read_all(session: Session) -> None:
    session.execute("select sum(length(pad)) from item")


def change(session: Session) -> None:
    """Change a row of each block."""
    session.execute("update item set pad = repeat('y', 500) where id % 14 = 1")
    session.execute("checkpoint")


def promote(session: Session) -> None:
    assert session.execute("select pg_promote()").fetchone() == (True,)


def said(server: Server, words: str, times: int = 1) -> bool:
    return server.log_text(since_start=True).count(words) >= times
