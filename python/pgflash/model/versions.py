# SPDX-License-Identifier: PostgreSQL
"""The versions of pgflash on a machine and in a server, and what to do if they do not match."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions of parts that work together; "" is a part that is absent or unknown."""

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
    #: The version of the installed files, to which CREATE EXTENSION or ALTER EXTENSION UPDATE
    #: leads.
    installed: str = ""

    @property
    def fit(self) -> bool:
        """Say whether the library and the extension's SQL are of one version, if both are there."""
        return not self.is_loaded or not self.extension or self.library == self.extension

    @property
    def remedy(self) -> str:
        """Return what to do if the versions do not match, in one sentence; "" if they do."""
        if self.why_no_server or not self.installed:
            return ""
        if not self.is_loaded:
            return "Add pgflash to shared_preload_libraries and restart the server."
        if self.extension and _parts(self.installed) < _parts(self.extension):
            return (
                f"Install pgflash {self.extension} and restart the server: the extension in the "
                "database is newer than the files."
            )
        if self.library != self.installed:
            return f"Restart the server: its files are of version {self.installed}."
        if self.extension and self.extension != self.library:
            return "Run ALTER EXTENSION pgflash UPDATE in each database that has the extension."
        return ""


def _parts(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions are ordered."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
