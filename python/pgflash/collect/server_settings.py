# SPDX-License-Identifier: PostgreSQL
"""The server's settings, for the rules of the doctor; nothing is changed."""

from pgflash.model.doctor import ServerSettings, TablespaceSettings
from pgflash.session import Connection, said

_NAMES = [
    "data_checksums",
    "dynamic_shared_memory_type",
    "effective_io_concurrency",
    "huge_pages",
    "huge_pages_status",
    "io_method",
    "io_workers",
    "max_connections",
    "max_files_per_process",
    "max_parallel_workers",
    "max_wal_senders",
    "max_worker_processes",
    "pgflash.cache_file",
    "pgflash.cache_size",
    "pgflash.keep_share",
    "pgflash.snapshot_interval",
    "pgflash.warm_restart",
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


def read_server(connection: Connection) -> ServerSettings:
    """Return the server's settings, as far as this role may see them."""
    with said("read the server's settings"):
        rows = connection.execute(_SETTINGS, (_NAMES,)).fetchall()
        tablespaces = connection.execute(_TABLESPACES).fetchall()
    return ServerSettings(
        version_num=connection.info.server_version,
        settings={str(name): str(setting or "") for name, setting, _unit in rows},
        units={str(name): str(unit) for name, _setting, unit in rows if unit},
        tablespaces=tuple(
            TablespaceSettings(name=str(name), options=_options(options))
            for name, options in tablespaces
        ),
    )


def _options(options: list[str] | None) -> dict[str, str]:
    pairs = (option.partition("=") for option in options or [])
    return {name: value for name, _equals, value in pairs}
