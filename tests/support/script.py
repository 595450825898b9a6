# SPDX-License-Identifier: PostgreSQL
"""The extension's SQL scripts: this version, and those before that a server may have."""

import re
import shutil
from pathlib import Path

from pgflash.lab.postgres import PgInstall
from support.cluster import REPOSITORY

SOURCES = REPOSITORY / "extension" / "sql"

_CONTROL = (REPOSITORY / "extension" / "pgflash.control").read_text()

#: What the control file says.
SQL_VERSION = re.findall(r"^default_version = '(.*)'$", _CONTROL, re.M)[0]

#: Scripts that servers were given once, as they were but for comments.
_BEFORE = REPOSITORY / "extension" / "test" / "sql"

#: The script of this version, once it is released.
RELEASED = _BEFORE / f"pgflash--{SQL_VERSION}.sql"

#: The versions that can be updated.
VERSIONS_BEFORE = sorted(
    path.stem.removeprefix("pgflash--") for path in _BEFORE.glob("*.sql") if path != RELEASED
)


def script_folder(install: PgInstall) -> Path:
    """Return where an installation has its extensions' scripts."""
    (folder,) = install.root.glob("**/extension/pgflash.control")
    return folder.parent


def offer_before(install: PgInstall) -> None:
    """Let CREATE EXTENSION ... VERSION make what was made before.

    Copies do no harm to other tests: nothing leads to these versions unless it is named.
    """
    for version in VERSIONS_BEFORE:
        shutil.copyfile(
            _BEFORE / f"pgflash--{version}.sql",
            script_folder(install) / f"pgflash--{version}.sql",
        )
