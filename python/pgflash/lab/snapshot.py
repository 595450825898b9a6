# SPDX-License-Identifier: PostgreSQL
"""A loaded database, kept for the next run.

Loading takes longer than measuring, so the cluster is kept stopped in out/cache, in a
folder named by everything that it depends on: PostgreSQL's version, the workload's size
and seed, and the code that loads it.  It is complete or absent (made under another name
and renamed), and made by one process at a time.

Its WAL is trimmed to a few segments, so that restoring it copies the data and little else.
"""

import contextlib
import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pgflash.errors import PgflashError
from pgflash.lab import oltp
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server

#: Changes whenever this module makes the cluster in another way.
FORMAT = 1

#: The database's name in the cluster.
DATABASE = "oltp"

_MANIFEST = "manifest.json"

#: Nothing is to be kept if loading is interrupted, so nothing need be safe meanwhile.
_LOAD_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_init_zero": "off",
    "max_wal_size": "8GB",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "autovacuum": "off",
}
#: Under these a checkpoint keeps no segments for later.
_TRIM_SETTINGS = {"max_wal_size": "32MB", "min_wal_size": "32MB"}


class InconsistentError(PgflashError):
    """The database breaks a consistency condition of its workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A stopped cluster, ready to be copied."""

    path: Path
    database_bytes: int


def snapshot_key(install: PgInstall, config: oltp.OltpConfig) -> str:
    """Return a name for a loaded database that changes with all it depends on."""
    digest = hashlib.sha256()
    facts = (FORMAT, install.version, config.warehouses, config.seed, config.foreign_keys)
    digest.update(repr(facts).encode())
    for text in _loader_texts():
        digest.update(text)
    return f"oltp-{install.version}-{config.warehouses}w-{digest.hexdigest()[:12]}"


def find_snapshot(cache: Path, key: str) -> Snapshot | None:
    """Return a kept database, or None if there is none."""
    try:
        manifest = json.loads((cache / key / _MANIFEST).read_text())
        return Snapshot(path=cache / key / "cluster", database_bytes=manifest["database_bytes"])
    except (OSError, ValueError, KeyError):
        return None


def make_snapshot(
    cache: Path,
    key: str,
    *,
    install: PgInstall,
    config: oltp.OltpConfig,
    work: Path,
    tell: Callable[[str], None],
) -> Snapshot:
    """Load the database, check it, stop it and keep it; wait if another run is at it."""
    with _lock(cache, key):
        found = find_snapshot(cache, key)
        if found is not None:
            return found
        making = cache / f"{key}.new"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        try:
            with Server.create(install, work, settings=_LOAD_SETTINGS) as server:
                database_bytes = _load(server, config, tell)
                tell("keeping the loaded database")
                server.snapshot(making / "cluster")
            (making / _MANIFEST).write_text(json.dumps({"database_bytes": database_bytes}) + "\n")
            making.rename(cache / key)
        finally:
            shutil.rmtree(making, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
    found = find_snapshot(cache, key)
    assert found is not None
    return found


def check(conninfo: str) -> tuple[str, ...]:
    """Check the workload's consistency conditions; return them, or raise if one is broken."""
    results = oltp.check_consistency(conninfo)
    broken = [one for one in results if not one.holds]
    if broken:
        raise InconsistentError(
            "the database is inconsistent: "
            + "; ".join(f"{one.condition} ({one.violations:,} rows)" for one in broken),
            hint="Keep the server's log and the run's folder, and report this.",
        )
    return tuple(f"{one.number} {one.condition}" for one in results)


def _load(server: Server, config: oltp.OltpConfig, tell: Callable[[str], None]) -> int:
    """Load into a fresh cluster, leave it stopped, and return the database's size."""
    server.start()
    with server.connect() as connection:
        connection.execute(f"create database {DATABASE}")
    conninfo = server.conninfo(DATABASE)
    loaded = oltp.load(conninfo, config, lambda stage, done: tell(f"loading {stage}, {done:.0%}"))
    tell("checking the loaded database")
    check(conninfo)
    server.configure(_TRIM_SETTINGS)
    server.restart()
    with server.connect() as connection:
        connection.execute("checkpoint")
        connection.execute("select pg_switch_wal()")
        connection.execute("checkpoint")
    server.stop()
    return loaded.size_bytes


def _loader_texts() -> Iterator[bytes]:
    """Yield the sources of the loader, in a fixed order."""
    folder = resources.files("pgflash.lab.oltp")
    names = ("loader.py", "rows.py")
    yield from ((folder / name).read_bytes() for name in names)
    scripts = sorted((folder / "sql").iterdir(), key=lambda one: one.name)
    yield from (one.read_bytes() for one in scripts if one.name.endswith(".sql"))


@contextlib.contextmanager
def _lock(cache: Path, key: str) -> Iterator[None]:
    """Let one process at a time make a database."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{key}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
