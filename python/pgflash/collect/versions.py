# SPDX-License-Identifier: PostgreSQL
"""Which pgflash a server has: its library, its files, and its SQL in a database."""

from dataclasses import replace

from pgflash.model.versions import Versions
from pgflash.session import Connection, said

#: 0.1's library does not tell its version, but every one has this setting.
_ANY_SETTING = "pgflash.snapshot_interval"

_VERSIONS = """
select pg_catalog.current_setting('server_version'::text),
       pg_catalog.current_database()::text,
       pg_catalog.current_setting('pgflash.version'::text, true),
       pg_catalog.current_setting(%s::text, true) is not null,
       (select extversion from pg_catalog.pg_extension where extname = 'pgflash'::name),
       (select default_version from pg_catalog.pg_available_extensions
         where name = 'pgflash'::name)
"""


def read_versions(connection: Connection, here: Versions) -> Versions:
    """Return the versions of this machine with those of a server."""
    with said("ask for the server's versions"):
        row = connection.execute(_VERSIONS, (_ANY_SETTING,)).fetchone()
    assert row is not None
    server, database, library, is_loaded, extension, installed = row
    return replace(
        here,
        postgresql=str(server),
        database=str(database),
        library=str(library or ("0.1" if is_loaded else "")),
        is_loaded=bool(is_loaded),
        extension=str(extension or ""),
        installed=str(installed or ""),
    )
