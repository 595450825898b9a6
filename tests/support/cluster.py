"""Private servers for tests, and private installations with the extension in them.

A test asks the `cluster` fixture for as many servers as it needs; each has a base folder
of its own that goes away with the test.  The extension is installed into a copy of the
PostgreSQL installation, one for each major and, for negative controls, one for each
deliberate fault (FC_BREAK), so that builds never clobber one another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server, reachable_dir, remove_data

REPOSITORY = Path(__file__).resolve().parents[2]

#: Tests check logic, not durability against power cuts; kill -9 loses no page cache.
FAST_SETTINGS = {
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "log_checkpoints": "off",
}


def find_install(major: int) -> PgInstall:
    """Return the installation of a major, or skip the test if it cannot be had."""
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "pg.py", str(major)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return PgInstall.from_pg_config(done.stdout.strip())


def build_install(stock: PgInstall, *, fault: str = "") -> PgInstall:
    """Return a private copy of STOCK with the extension just built and installed in it.

    FAULT names a deliberate fault (FC_BREAK) that a negative control must catch.
    """
    name = f"{stock.version}-{fault}" if fault else stock.version
    install = stock.copy_to(reachable_dir(REPOSITORY / "build" / "pg") / name)
    done = subprocess.run(
        [
            *("make", "--no-print-directory", "-C", REPOSITORY / "extension", "install"),
            f"PG_CONFIG={install.pg_config}",
            f"BUILD={REPOSITORY / 'build' / 'extension' / name}",
            *([f"FC_BREAK={fault}"] if fault else []),
        ],
        capture_output=True,
        text=True,
        check=False,
        # A make above us must not talk to this one.
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    if done.returncode != 0:
        pytest.fail(f"the extension does not build:\n{done.stdout}\n{done.stderr}", pytrace=False)
    return install


class ClusterFactory:
    """Makes servers and stops them all at the end of the test."""

    def __init__(self, install: PgInstall) -> None:
        """Make servers of INSTALL unless told otherwise."""
        self._install = install
        self._servers: list[tuple[Server, Path]] = []

    def __call__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        preload: str = "",
        install: PgInstall | None = None,
        initdb_args: Sequence[str] = (),
        extra_env: Mapping[str, str] | None = None,
        start: bool = True,
    ) -> Server:
        """Return a new private server, started unless told otherwise."""
        # Not below pytest's tmp_path, which only root may enter when root runs the tests.
        folder = Path(tempfile.mkdtemp(prefix="pgflash-test-"))
        folder.chmod(0o755)
        server = Server.create(
            install or self._install,
            folder / "server",
            settings={
                **FAST_SETTINGS,
                **({"shared_preload_libraries": preload} if preload else {}),
                **(settings or {}),
            },
            initdb_args=initdb_args,
        )
        self._servers.append((server, folder))
        if start:
            server.start(extra_env)
        return server

    def adopt(self, server: Server) -> Server:
        """Stop a server that was made otherwise, and remove its folder, with the others."""
        self._servers.append((server, server.base))
        return server

    def log_tails(self) -> str:
        """Return the ends of all logs, for the report of a failed test."""
        return "\n".join(
            f"{server.log_path}:\n" + "\n".join(server.log_text().splitlines()[-40:])
            for server, _folder in self._servers
        )

    def close(self) -> None:
        """Stop all servers and remove their folders."""
        for server, folder in self._servers:
            server.stop("immediate")
            remove_data(server.data)
            shutil.rmtree(folder, ignore_errors=True)
        self._servers.clear()
