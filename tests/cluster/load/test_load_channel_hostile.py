# SPDX-License-Identifier: PostgreSQL
"""What a stored list of cached blocks may meet: lost histories, dropped databases, lost caches."""

import re

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import (
    CachedServer,
    assert_never_stale,
)
from support.channel import (
    IDLE,
    STAYS,
    STORING,
    Session,
    await_warm,
    create_primary,
    is_warm,
    list_of,
    number,
    one,
    read_all,
    said,
    set_interval,
    stored_blocks,
)
from support.cluster import ClusterFactory
from support.patience import until
from support.standby import create_standby

pytestmark = pytest.mark.extension


def listed_blocks(session: Session, file: int) -> int:
    """Return how many blocks of a file the stored list has."""
    blocks = "select coalesce(sum(bit_count(bitmap)), 0) from pgflash_stored_list"
    return int(one(session, f"{blocks} where filenode = {file}"))


# ---- caches that are lost, small, or not there


def test_a_primary_whose_cache_is_lost_loads_its_list_before_it_stores_another(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as session:
        until(lambda: said(primary.server, IDLE))
        blocks = stored_blocks(session)
        for _ in range(2):
            session.execute("alter system set pgflash.load_rate = 0")
            session.execute("select pg_reload_conf()")
            session.execute("select pgflash_cache_clear()")
            # It could store another list each time.
            await_more(primary, STAYS, 4)
            assert stored_blocks(session) > 0.9 * blocks
            assert not is_warm(session)
            session.execute("alter system reset pgflash.load_rate")
            session.execute("select pg_reload_conf()")
            await_warm(session)
            # A visit that finds most of the list cached is ready for the next loss.
            await_more(primary, IDLE, 1)
        assert_never_stale(primary, compared_min=500, go_on=lambda: read_all(session))

        # What is gone for good does not stay in the list.
        file = int(one(session, "select pg_relation_filenode('item')"))
        assert listed_blocks(session, file) > 1000
        session.execute("drop table item")
        session.execute("checkpoint")
        session.execute("select pgflash_cache_clear()")
        until(lambda: listed_blocks(session, file) == 0)


def test_a_load_that_was_cancelled_does_not_begin_again(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install, settings={"pgflash.load_rate": "1GB"})
    with primary.server.connect() as session:
        until(lambda: said(primary.server, IDLE))
        before, blocks = number(session), stored_blocks(session)
        session.execute("alter system set pgflash.load_rate = 0")
        session.execute("select pg_reload_conf()")
        session.execute("select pgflash_cache_clear()")
        until(lambda: (list_of(session) or ("", ""))[:2] == ("repository", "waiting"))
        session.execute("select pgflash_cache_load_cancel()")
        until(lambda: number(session) != before)
        assert stored_blocks(session) < blocks / 2


def test_invalid_rows_are_logged_once(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as writer:
        set_interval(primary, "0")
        writer.execute(
            "insert into pgflash_stored_list"
            " select 1663, 5, n, 'toast', 0, 0, '\\xff' from generate_series(1, 3) n"
        )
        standby = create_standby(cluster, primary.server, settings=STORING)
        with standby.server.connect() as reader:
            await_warm(reader)
            for _ in range(2):
                writer.execute(
                    "update pgflash_stored_list_head"
                    " set list_number = list_number + 1, taken_at = clock_timestamp()"
                )
                await_taken(reader, one(writer, "select taken_at from pgflash_stored_list_head"))
        log = standby.server.log_text()
        assert re.findall(r"ignoring \d+ invalid rows", log) == ["ignoring 3 invalid rows"]


def await_taken(session: Session, at: object) -> None:
    """Wait until a server has loaded the list that was taken then."""
    loaded = "select list_taken_at from pgflash_cache_warmth where state = 'done'"
    until(lambda: one(session, loaded) == at)


def await_more(cached: CachedServer, words: str, times: int) -> None:
    """Wait until a server has said something so many times more."""
    before = cached.server.log_text(since_start=True).count(words)
    until(lambda: said(cached.server, words, times=before + times))
