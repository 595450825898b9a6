# SPDX-License-Identifier: PostgreSQL
"""Ask a server for its synchronous standbys."""

from pgflash.model.standbys import Standbys
from pgflash.session import Connection, said

#: A role without pg_monitor does not see how a standby follows.
_STANDBYS = """
select pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('synchronous_standby_names'::text),
       (select s.reset_val from pg_catalog.pg_settings s where s.name = 'synchronous_commit'::text),
       (select case when count(*) filter (where r.sync_state is null) = 0
                    then count(*) filter (where r.sync_state in ('sync'::text, 'quorum'::text)) end
          from pg_catalog.pg_stat_replication r)
"""


def read_standbys(connection: Connection) -> Standbys:
    """Return a server's synchronous standbys."""
    with said("ask for synchronous standbys"):
        row = connection.execute(_STANDBYS).fetchone()
    assert row is not None
    return Standbys(
        is_standby=bool(row[0]), names=str(row[1]), commit=str(row[2]), connected=row[3]
    )
