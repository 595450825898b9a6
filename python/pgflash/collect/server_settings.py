# SPDX-License-Identifier: PostgreSQL
"""The server's settings, for the rules of the doctor; nothing is changed."""

from psycopg import sql

from pgflash.model.doctor import Checkpoints, ServerSettings, TablespaceSettings
from pgflash.session import Connection, said
from pgflash.standbys import read_standbys

_NAMES = [
    "checkpoint_completion_target",
    "checkpoint_timeout",
    "data_checksums",
    "data_directory",
    "dynamic_shared_memory_type",
    "effective_io_concurrency",
    "huge_page_size",
    "huge_pages",
    "huge_pages_status",
    "io_max_workers",
    "io_method",
    "io_min_workers",
    "io_workers",
    "listen_addresses",
    "max_connections",
    "max_files_per_process",
    "max_parallel_workers",
    "max_stack_depth",
    "max_wal_size",
    "max_wal_senders",
    "max_worker_processes",
    "pgflash.cache_file",
    "pgflash.cache_size",
    "pgflash.keep_share",
    "pgflash.snapshot_interval",
    "pgflash.warm_restart",
    "port",
    "random_page_cost",
    "seq_page_cost",
    "shared_buffers",
    "shared_memory_size",
    "shared_memory_size_in_huge_pages",
    "shared_memory_type",
    "wal_init_zero",
    "wal_recycle",
]

_SETTINGS = """
select name, setting, unit from pg_catalog.pg_settings where name = any(%s)
"""
_TABLESPACES = """
select spcname, spcoptions from pg_catalog.pg_tablespace where spcname <> 'pg_global'
 order by spcname
"""

#: Those that include the extension's tables, or would once it is created.
_PUBLICATIONS = """
select p.pubname
  from pg_catalog.pg_publication p
 where p.puballtables
    or exists (select from pg_catalog.pg_publication_namespace n
                 join pg_catalog.pg_extension e on e.extnamespace = n.pnnspid
                where n.pnpubid = p.oid and e.extname = 'pgflash')
 order by 1
"""

#: A standby writes no WAL of its own.
_CHECKPOINTS = """
select {timed}, {requested},
       extract(epoch from pg_catalog.clock_timestamp() - c.stats_reset)::float8,
       w.wal_bytes::float8
         / extract(epoch from pg_catalog.clock_timestamp() - w.stats_reset)::float8
  from pg_catalog.{view} c, pg_catalog.pg_stat_wal w
 where not pg_catalog.pg_is_in_recovery()
"""
#: By the first major that has them; 18 tells which timed ones found something to write.
_CHECKPOINT_COUNTS = {
    18: ("pg_stat_checkpointer", "greatest(c.num_done - c.num_requested, 0)", "c.num_requested"),
    17: ("pg_stat_checkpointer", "c.num_timed", "c.num_requested"),
    15: ("pg_stat_bgwriter", "c.checkpoints_timed", "c.checkpoints_req"),
}
#: Without pg_monitor the address of others' sessions is hidden, and their kind, too.
_REMOTE = """
select count(*) filter (where client_addr is not null
                          and not client_addr <<= '127.0.0.0/8'::pg_catalog.inet
                          and client_addr <> '::1'::pg_catalog.inet),
       count(*) filter (where backend_type is null)
  from pg_catalog.pg_stat_activity
"""


def read_server(connection: Connection) -> ServerSettings:
    """Return the server's settings, as far as this role may see them."""
    with said("read the server's settings"):
        rows = connection.execute(_SETTINGS, (_NAMES,)).fetchall()
        tablespaces = connection.execute(_TABLESPACES).fetchall()
        publications = connection.execute(_PUBLICATIONS).fetchall()
        remote, hidden = connection.execute(_REMOTE).fetchone() or (0, 0)
    return ServerSettings(
        version_num=connection.info.server_version,
        settings={str(name): str(setting or "") for name, setting, _unit in rows},
        units={str(name): str(unit) for name, _setting, unit in rows if unit},
        tablespaces=tuple(
            TablespaceSettings(name=str(name), options=_options(options))
            for name, options in tablespaces
        ),
        publications=tuple(str(name) for (name,) in publications),
        checkpoints=_read_checkpoints(connection),
        standbys=read_standbys(connection),
        remote_sessions=None if hidden and not remote else int(remote),
    )


def _read_checkpoints(connection: Connection) -> Checkpoints | None:
    major = connection.info.server_version // 10_000
    view, timed, requested = next(
        names for first, names in _CHECKPOINT_COUNTS.items() if major >= first
    )
    query = sql.SQL(_CHECKPOINTS).format(
        view=sql.Identifier(view), timed=sql.SQL(timed), requested=sql.SQL(requested)
    )
    with said("read the server's checkpoints"):
        row = connection.execute(query).fetchone()
    if row is None or None in row or row[2] <= 0:
        return None
    return Checkpoints(
        timed=float(row[0]), requested=float(row[1]), since_s=row[2], wal_bytes_s=row[3]
    )


def _options(options: list[str] | None) -> dict[str, str]:
    pairs = (option.partition("=") for option in options or [])
    return {name: value for name, _equals, value in pairs}
