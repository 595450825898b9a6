# SPDX-License-Identifier: PostgreSQL
"""Fill the leader's cache, and let the members load quickly while nothing is measured.

The cache of a leader in production has held its working set for a long time.  The warm-up brings
what the load asks for, the loader brings the rest of the database.
"""

import contextlib
from collections.abc import Iterator, Sequence

from psycopg import sql

from pgflash_lab.patroni import PatroniMember, wait_for
from pgflash_lab.workload import DATABASE

#: While nothing is measured.
_HURRIED = "1GB"

_LOAD_ALL = """
select pgflash_cache_load(oid::regclass) from pg_class
 where relnamespace = %s::regnamespace and relkind = 'r'
"""
_LEFT = """
select count(*) from pgflash_cache_load_progress where state in ('waiting', 'loading')
"""
_WAIT_S = 600.0


@contextlib.contextmanager
def hurried(members: Sequence[PatroniMember]) -> Iterator[None]:
    """Let the members' loaders read as fast as they can until the block is left."""
    for member in members:
        set_on(member, "pgflash.load_rate", _HURRIED)
    try:
        yield
    finally:
        for member in members:
            set_on(member, "pgflash.load_rate", None)


def fill(leader: PatroniMember, schema: str) -> None:
    """Load every table of the workload, with its indexes, into the leader's cache."""
    with leader.connect(DATABASE) as connection:
        connection.execute(_LOAD_ALL, (schema,))
        wait_for(
            "the leader's cache is full",
            lambda: connection.execute(_LEFT).fetchall() == [(0,)],
            wait_s=_WAIT_S,
        )


def set_on(member: PatroniMember, name: str, value: str | None) -> None:
    """Change a setting of one member at once; None: back to what Patroni says."""
    statement = sql.SQL("alter system set {} = {}" if value else "alter system reset {}")
    words = [sql.Identifier(*name.split(".")), *([sql.Literal(value)] if value else [])]
    with member.connect() as connection:
        connection.execute(statement.format(*words))
        connection.execute("select pg_reload_conf()")
