# SPDX-License-Identifier: PostgreSQL
"""The extension's SQL scripts: this version, and earlier ones that a server may have."""

import os
import re
from pathlib import Path

from pgflash_lab.postgres import PgInstall
from support.cluster import REPOSITORY

SOURCES = REPOSITORY / "extension" / "sql"

_CONTROL = (REPOSITORY / "extension" / "pgflash.control").read_text()

#: The version in the control file.
SQL_VERSION = re.findall(r"^default_version = '(.*)'$", _CONTROL, re.M)[0]

#: Scripts that were installed on servers in the past, unchanged except for comments.
_BEFORE = REPOSITORY / "extension" / "test" / "sql"

#: The script of this version, once it is released.
RELEASED = _BEFORE / f"pgflash--{SQL_VERSION}.sql"

#: The versions that can be updated.
VERSIONS_BEFORE = sorted(
    path.stem.removeprefix("pgflash--") for path in _BEFORE.glob("*.sql") if path != RELEASED
)


def script_folder(install: PgInstall) -> Path:
    """Return the folder of an installation's extension scripts."""
    (folder,) = install.root.glob("**/extension/pgflash.control")
    return folder.parent


def offer(install: PgInstall, version: str, script: str) -> None:
    """Let CREATE EXTENSION ... VERSION create a version.

    That does not affect other tests, which may read the script meanwhile: it is there as a whole,
    and used only if its version is named.
    """
    folder = script_folder(install)
    # Not in the folder itself, of which other tests may make a copy.
    new = install.root.parent / f"{version}-{os.getpid()}.new"
    new.write_text(script)
    new.replace(folder / f"pgflash--{version}.sql")


def offer_before(install: PgInstall) -> None:
    """Let CREATE EXTENSION ... VERSION create earlier versions; see offer()."""
    for version in VERSIONS_BEFORE:
        offer(install, version, (_BEFORE / f"pgflash--{version}.sql").read_text())
