# SPDX-License-Identifier: PostgreSQL
"""A loaded database, kept for the next run.

Loading takes longer than measuring, so the stopped cluster is kept in out/cache, in a folder named
by everything that it depends on: PostgreSQL's version, the workload's size and seed, the code that
loads it, and the user, since a server runs what a cluster's settings say.  It is complete or absent
(made under another name and renamed), and made by one process at a time.

Its WAL is trimmed to a few segments, so that restoring it copies the data and little else.
"""

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgflash.progress import Listener
from pgflash_lab.loading import index_memory
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.store import StoreError, open_plain
from pgflash_lab.workload import DATABASE, P, Workload

#: Changes whenever this module makes the cluster differently.
FORMAT = 2

_SIZE = """
select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
  from pg_class
 where relnamespace = %s::regnamespace and relkind in ('r', 'm')
"""

_MANIFEST = "manifest.json"

#: If loading is interrupted, nothing is kept, so nothing need be safe meanwhile.
_LOAD_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_init_zero": "off",
    "max_wal_size": "8GB",
    "shared_buffers": "256MB",
    "autovacuum": "off",
}
#: With these, a checkpoint keeps no segments for later.
_TRIM_SETTINGS = {"max_wal_size": "32MB", "min_wal_size": "32MB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDatabase:
    """A stopped cluster, ready to be copied."""

    path: Path
    database_bytes: int


def loaded_key(install: PgInstall, workload: Workload[P], parameters: P) -> str:
    """Return a name for a loaded database that changes with everything it depends on."""
    of = f"{workload.name}-{install.version}-{FORMAT}-{workload.key(parameters)}"
    return f"{of}-{os.geteuid()}"


def find_loaded(cache: Path, key: str) -> LoadedDatabase | None:
    """Return a kept database, or None if there is none; raise if it is somebody else's."""
    try:
        status = (cache / key).lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise StoreError(
                f'"{cache / key}" is not a folder of yours',
                hint="Remove it, or name another folder with --store.",
            )
        manifest = json.loads((cache / key / _MANIFEST).read_text())
        return LoadedDatabase(
            path=cache / key / "cluster", database_bytes=manifest["database_bytes"]
        )
    except (OSError, ValueError, KeyError):
        return None


def load(
    cache: Path,
    key: str,
    *,
    install: PgInstall,
    workload: Workload[P],
    parameters: P,
    work: Path,
    listener: Listener,
) -> LoadedDatabase:
    """Load the database, check it, stop it and keep it; wait if another run is doing so."""
    with _lock(cache, key):
        found = find_loaded(cache, key)
        if found is not None:
            return found
        making = cache / f"{key}.new"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        try:
            settings = _LOAD_SETTINGS | {"maintenance_work_mem": index_memory()}
            with (
                Server.create(install, work, settings=settings) as server,
                server.explaining_its_end(),
            ):
                database_bytes = _load(install, server, workload, parameters, listener)
                listener.stage("keeping the loaded database")
                server.copy_to(making / "cluster")
            (making / _MANIFEST).write_text(json.dumps({"database_bytes": database_bytes}) + "\n")
            making.rename(cache / key)
        finally:
            shutil.rmtree(making, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
    found = find_loaded(cache, key)
    assert found is not None
    return found


def _load(
    install: PgInstall, server: Server, workload: Workload[P], parameters: P, listener: Listener
) -> int:
    """Load into a fresh cluster, leave it stopped, and return the database's size."""
    server.start()
    with server.connect() as connection:
        connection.execute(f"create database {DATABASE}")
    conninfo = server.conninfo(DATABASE)
    workload.load(install, conninfo, parameters, listener)
    listener.stage("checking the loaded database")
    workload.check(conninfo, parameters)
    with server.connect(DATABASE) as connection:
        row = connection.execute(_SIZE, (workload.name,)).fetchone()
    assert row is not None
    server.configure(_TRIM_SETTINGS)
    server.restart()
    with server.connect() as connection:
        connection.execute("checkpoint")
        connection.execute("select pg_switch_wal()")
        connection.execute("checkpoint")
    server.stop()
    return int(row[0])


@contextlib.contextmanager
def _lock(cache: Path, key: str) -> Iterator[None]:
    """Let only one process at a time make a database."""
    cache.mkdir(parents=True, exist_ok=True)
    try:
        number = open_plain(cache / f"{key}.lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StoreError(f'could not open "{cache / key}.lock": {error.strerror}') from error
    with os.fdopen(number, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
