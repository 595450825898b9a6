# SPDX-License-Identifier: PostgreSQL
"""Which pgflash this is, and which one a server has: its library, and its SQL in a database."""

from dataclasses import dataclass, replace

import pgflash
from pgflash.machine.host import kernel
from pgflash.session import Connection, SessionError, connect, said

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions of what works together; "" is what is not there, or not known."""

    #: This command and its library for Python.
    command: str
    #: Of this machine.
    kernel: str
    #: Why the server was not asked; then all that follows is empty.
    why_no_server: str = ""
    postgresql: str = ""
    database: str = ""
    #: The libraries in the server, by shared_preload_libraries.
    library: str = ""
    is_loaded: bool = False
    #: The extension's SQL in the database.
    extension: str = ""
    #: What CREATE EXTENSION or ALTER EXTENSION UPDATE would make of it: that of the files.
    installed: str = ""

    @property
    def remedy(self) -> str:
        """Return what to do if the versions do not fit, in one sentence; "" if they do."""
        if self.why_no_server or not self.installed:
            return ""
        if not self.is_loaded:
            return "Add pgflash to shared_preload_libraries and restart the server."
        if self.library != self.installed:
            return f"Restart the server: its files are of version {self.installed}."
        if self.extension and self.extension != self.library:
            return "Run ALTER EXTENSION pgflash UPDATE in each database that has the extension."
        return ""


def version(*, dsn: str | None = None) -> Versions:
    """Return the versions of pgflash here and in a server; one that cannot be reached says why."""
    here = Versions(command=pgflash.__version__, kernel=kernel())
    try:
        with connect(dsn or "") as connection:
            return _ask(connection, here)
    except SessionError as error:
        return replace(here, why_no_server=error.message)


def _ask(connection: Connection, here: Versions) -> Versions:
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
