# SPDX-License-Identifier: PostgreSQL
"""The library of pgflash 0.1 itself, built from the history of this repository."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgflash_lab.account import reachable_dir
from pgflash_lab.postgres import PgInstall
from support.cluster import REPOSITORY, locked

#: The last state of the sources whose SQL is that of 0.1, in extension/test/sql.
COMMIT = "9b817030"
VERSION = "0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoVersions:
    """An installation whose library and control file are of this version or of 0.1."""

    install: PgInstall
    #: By version: the library, and the control file.
    libraries: dict[str, bytes]
    controls: dict[str, bytes]

    def use_library(self, version: str) -> None:
        """Install the library of a version; a server loads it at its next start."""
        _replace(self.install.pkglibdir / "pgflash.so", self.libraries[version])

    def use_files(self, version: str) -> None:
        """Install the control file of a version; the scripts of both are there."""
        control = self.install.sharedir / "extension" / "pgflash.control"
        _replace(control, self.controls[version])


def two_versions(install: PgInstall, now: str) -> TwoVersions:
    """Return a fresh copy of an installation, whose version is NOW."""
    older = _built(install)
    folder = reachable_dir(REPOSITORY / "build" / "pg") / f"{install.version}-older"
    shutil.rmtree(folder, ignore_errors=True)
    copied = install.copy_to(folder, linked=True)
    control = copied.sharedir / "extension" / "pgflash.control"
    text = control.read_bytes()
    return TwoVersions(
        install=copied,
        libraries={
            now: (copied.pkglibdir / "pgflash.so").read_bytes(),
            VERSION: older.read_bytes(),
        },
        controls={now: text, VERSION: text.replace(f"'{now}'".encode(), f"'{VERSION}'".encode())},
    )


def _replace(path: Path, content: bytes) -> None:
    """Replace a file instead of writing into it: another copy may share it, or a server run it."""
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o755)


def _built(install: PgInstall) -> Path:
    """Return the library of 0.1 for a server, built once."""
    sources = REPOSITORY / "build" / "older"
    library = sources / "extension" / "build" / str(install.major) / "pgflash.so"
    with locked("make"):
        if not (sources / "core").exists():
            sources.mkdir(parents=True, exist_ok=True)
            archive = _run("git", "-c", "safe.directory=*", "archive", COMMIT, folder=REPOSITORY)
            subprocess.run(["tar", "x", "-C", str(sources)], input=archive, check=True)
        if not library.exists():
            _run("make", "-C", "core", folder=sources)
            config = f"PG_CONFIG={install.bindir / 'pg_config'}"
            _run("make", "-C", "extension", config, folder=sources)
    return library


def _run(*command: str, folder: Path) -> bytes:
    done = subprocess.run(command, cwd=folder, capture_output=True)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)} failed:\n{done.stderr.decode()}", pytrace=False)
    return done.stdout
