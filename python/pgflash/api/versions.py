# SPDX-License-Identifier: PostgreSQL
"""Which pgflash this is, and which one a server has: its library, and its SQL in a database."""

from dataclasses import replace

import pgflash
from pgflash.collect.versions import read_versions
from pgflash.machine.host import kernel
from pgflash.model.versions import Versions
from pgflash.session import SessionError, connect


def version(*, dsn: str | None = None) -> Versions:
    """Return the versions of pgflash here and in a server; one that cannot be reached says why."""
    here = own_versions()
    try:
        with connect(dsn or "") as connection:
            return read_versions(connection, here)
    except SessionError as error:
        return replace(here, why_no_server=error.message)


def own_versions() -> Versions:
    """Return the versions of this machine."""
    return Versions(command=pgflash.__version__, kernel=kernel())
