# SPDX-License-Identifier: PostgreSQL
"""An installation that is none, for tests that start no server."""

from pathlib import Path

from pgflash_lab.postgres import PgInstall


def no_install(folder: Path) -> PgInstall:
    """Return an installation whose folders are all the same."""
    return PgInstall(
        bindir=folder,
        libdir=folder,
        pkglibdir=folder,
        sharedir=folder,
        includedir_server=folder,
        version="18.0",
        major=18,
    )
