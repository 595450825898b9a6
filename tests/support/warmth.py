# SPDX-License-Identifier: PostgreSQL
"""How warm members say they are, as a test decides: in place of the extension's view.

A test of what follows from warmth needs it to rise at a moment of its choice, on one member and not
on another.  So the view is replaced by one of a table, whose rows reach all standbys by replication
and name the member by the port of its server.
"""

from collections.abc import Mapping
from functools import partial

import psycopg

from support.patience import until
from support.patroni import PatroniCluster, PatroniMember

_MAKE = """
do $$ begin
    if to_regclass('pgflash_cache_warmth') is not null then
        alter extension pgflash drop view pgflash_cache_warmth;
        drop view pgflash_cache_warmth;
    end if;
end $$;
create table told_warmth (port int primary key, warmth float8);
create view pgflash_cache_warmth as
    select t.warmth, 60.0::float8 as to_go_s, 5.0::float8 as list_age_s
      from told_warmth t where t.port = inet_server_port();
grant select on pgflash_cache_warmth to pg_monitor;
alter extension pgflash add view pgflash_cache_warmth;
"""


def tell_warmth(cluster: PatroniCluster, warmth: Mapping[str, float | None]) -> None:
    """Have members say how warm they are, by their names; return once all of them do."""
    with cluster.leader().connect() as connection:
        # A member leads by Patroni's word before it has been promoted.
        until(lambda: connection.execute("select pg_is_in_recovery()").fetchone() == (False,))
        if connection.execute("select to_regclass('told_warmth')").fetchone() == (None,):
            connection.execute(_MAKE)
        for name, value in warmth.items():
            connection.execute(
                "insert into told_warmth values (%s, %s) "
                "on conflict (port) do update set warmth = excluded.warmth",
                (cluster.member(name).port, value),
            )
    for name, value in warmth.items():
        until(partial(_says, cluster.member(name), value))


def _says(member: PatroniMember, warmth: float | None) -> bool:
    try:
        with member.connect() as connection:
            return connection.execute("select warmth from pgflash_cache_warmth").fetchall() == [
                (warmth,)
            ]
    except psycopg.Error:
        return False
