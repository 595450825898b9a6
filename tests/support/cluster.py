# SPDX-License-Identifier: PostgreSQL
"""Private servers for tests, and private installations that contain the extension.

A test asks the `cluster` fixture for as many servers as it needs; each has a base folder of its own
that is removed after the test.  The extension is installed into a copy of the PostgreSQL
installation, one for each major version and, for negative controls, one for each deliberate fault
(FC_BREAK), so that builds never overwrite one another.

initdb is run once for each version and segment size, and CREATE EXTENSION for each version of its
scripts.  The first server of a test is a copy of the result, in a folder left by an earlier test
(see used_data.py).  Further servers are made again, so
no two servers of a test are the same cluster.  Tests may run in several processes at once; files
that they share below build/ are made under a lock.

Servers are in memory if it has room: on a disk, creating and removing files can take half of the
processors' time.  What depends on the major is tested on a disk as well, on 16.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgflash.machine.host import available_memory_bytes
from pgflash_lab.account import make_server_dir, reachable_dir
from pgflash_lab.leftovers import remove_tree
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.uring import uring_settings
from support.used_data import UsedData

REPOSITORY = Path(__file__).resolve().parents[2]

#: Tests check logic, not durability against power cuts; kill -9 loses no page cache.
FAST_SETTINGS = {
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "log_checkpoints": "off",
}

#: The room that memory must have for a server to be there.
ROOM_BYTES = 3 << 30
#: The major whose servers are on a disk.
MAJOR_ON_DISK = 16

#: The functions that a failed assertion calls: libc's, and PostgreSQL's.
ASSERTIONS = (b"__assert_fail", b"ExceptionalCondition")
#: How a process ends whose assertion is false.
_FAILED = re.compile(r"^TRAP: |: Assertion `")


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other test processes away from what is made under this name."""
    folder = REPOSITORY / "build" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_install(name: int | str) -> PgInstall:
    """Return a major version's installation, or another of pg.NAMES; skip the test without it."""
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "pg.py", str(name)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return PgInstall.from_pg_config(done.stdout.strip())


def build_install(
    stock: PgInstall, *, assertions: bool = False, fault: str = "", variant: str = ""
) -> PgInstall:
    """Return a private copy of STOCK with the extension just built and installed in it.

    ASSERTIONS are for tests; without them it is what users install, and benches measure.
    FAULT names a deliberate fault (FC_BREAK) that a negative control must catch, in a build
    with assertions; VARIANT distinguishes STOCK from another installation of the same version.
    """
    assertions = assertions or bool(fault)
    sound = "-".join(
        filter(None, (_version_name(stock), variant, "assertions" if assertions else ""))
    )
    name = "-".join(filter(None, (sound, fault)))
    build = REPOSITORY / "build" / "extension" / name
    copies = reachable_dir(REPOSITORY / "build" / "pg")
    install = stock.copy_to(copies / sound)
    if fault:
        install = install.copy_to(copies / name, linked=True)
    with locked("make"):  # all of them build core
        done = _make("core", install, build, assertions, fault)
    with locked(f"make-{name}"):
        if fault:
            with locked(f"make-{sound}"):
                _share_objects(build.with_name(sound), build, fault)
        if done.returncode == 0:
            done = _make("all", install, build, assertions, fault)
        # Do not write existing files again: other tests' servers may be loading them.
        if done.returncode == 0 and not _is_installed(build, install):
            done = _make("install", install, build, assertions, fault)
    if done.returncode != 0:
        pytest.fail(f"the extension does not build:\n{done.stdout}\n{done.stderr}", pytrace=False)
    return install


def _version_name(install: PgInstall) -> str:
    """Return a version's name, different for two builds of it and the same for their copies."""
    return f"{install.version}-{install.root.parent.name}"


def has_fault(install: PgInstall) -> bool:
    """Say whether a fault was built in, which may break any invariant."""
    return "-assertions-" in str(install.root)


def _make(
    target: str, install: PgInstall, build: Path, assertions: bool, fault: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *("make", "--no-print-directory", f"--jobs={os.cpu_count()}"),
            *("-C", REPOSITORY / "extension", target),
            f"PG_CONFIG={install.pg_config}",
            f"BUILD={build}",
            # What tests build nobody debugs, and it takes a fifth longer to compile; more
            # optimizations take a third longer.
            *(["FC_TEST=1", "CFLAGS=-O1"] if assertions else []),
            *([f"FC_BREAK={fault}"] if fault else []),
        ],
        capture_output=True,
        text=True,
        check=False,
        # A make that runs us must not affect this one.
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
    )


def _is_installed(build: Path, install: PgInstall) -> bool:
    """Say whether the installation has the library and the scripts as they were built."""
    scripts = install.sharedir / "extension"
    built = {install.pkglibdir / "pgflash.so": build / "pgflash.so"}
    built |= {scripts / path.name: path for path in build.glob("pgflash--*.sql")}
    built[scripts / "pgflash.control"] = REPOSITORY / "extension" / "pgflash.control"
    return all(
        there.exists() and made.exists() and there.read_bytes() == made.read_bytes()
        for there, made in built.items()
    )


def _share_objects(sound: Path, broken: Path, fault: str) -> None:
    """Reuse a sound build's objects that do not depend on this fault in the build with it."""
    sources = REPOSITORY / "extension" / "src"
    # An object depends on the fault if it names it, or if it asks which fault is built in.
    knows = re.compile(rf"FC_BROKEN\(\s*({fault}|NONE)\s*\)|FC_BREAK(_{fault})?\b")
    in_headers = any(
        knows.search(path.read_text()) for path in sources.rglob("*.h") if path.name != "broken.h"
    )
    for source in sources.rglob("*.c"):
        built = sound / "src" / source.relative_to(sources).with_suffix(".o")
        if built.exists() and not in_headers and not knows.search(source.read_text()):
            own = broken / built.relative_to(sound)
            own.parent.mkdir(parents=True, exist_ok=True)
            # Not older than the files that make compares it with.
            shutil.copy2(built, own)
    if (sound / "built_for").exists():
        broken.mkdir(parents=True, exist_ok=True)
        shutil.copy2(sound / "built_for", broken)


def _template(install: PgInstall, initdb_args: Sequence[str], *, with_extension: bool) -> Path:
    """Return a data folder made by initdb, on which no server has run but to create pgflash."""
    name = "".join(["template-", _version_name(install), *initdb_args])
    if with_extension:
        name += f"-pgflash-{_scripts_digest(install)}"
    base = reachable_dir(REPOSITORY / "build" / "pg") / name
    with locked(base.name):
        if not base.exists():
            new = base.with_name(f"{base.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            with Server.create(install, new, initdb_args=initdb_args) as server:
                if with_extension:
                    server.start()
                    with server.connect() as connection:
                        connection.execute("create extension pgflash")
            new.rename(base)
    return base / "data"


def _scripts_digest(install: PgInstall) -> str:
    """Return what distinguishes one version of the extension's scripts from another."""
    digest = hashlib.sha256()
    for path in sorted((install.sharedir / "extension").glob("pgflash*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def folder_in_memory() -> Path | None:
    """Return a folder in memory, or None if it has no room."""
    folder = Path(os.environ.get("MEMDIR", "/dev/shm"))
    if not folder.is_dir():
        return None
    free = min(shutil.disk_usage(folder).free, available_memory_bytes())
    return folder if free > ROOM_BYTES else None


_used = UsedData()
forget_used_data = _used.close


class ClusterFactory:
    """Makes servers and stops them all at the end of the test."""

    def __init__(self, install: PgInstall) -> None:
        """Make servers of INSTALL by default."""
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
        on_disk: bool = False,
        with_extension: bool = False,
    ) -> Server:
        """Return a new private server, started unless told otherwise.

        ON_DISK is for tests of what a file system in memory does in another way.  WITH_EXTENSION
        spares the first server of a test CREATE EXTENSION.
        """
        install = install or self._install
        on_disk = on_disk or install.major == MAJOR_ON_DISK
        # Not below pytest's tmp_path, which only root may enter if root runs the tests.
        folder = Path(
            tempfile.mkdtemp(prefix="pgflash-test-", dir=None if on_disk else folder_in_memory())
        )
        folder.chmod(0o755)
        settings = {
            **FAST_SETTINGS,
            **uring_settings(install),
            **({"shared_preload_libraries": preload} if preload else {}),
            **(settings or {}),
        }
        # A template may have any segment size, but must not be a user's own folder.
        if self._servers or not all(one.startswith("--wal-segsize=") for one in initdb_args):
            server = Server.create(
                install, folder / "server", settings=settings, initdb_args=initdb_args
            )
        else:
            make_server_dir(folder / "server")
            template = _template(install, initdb_args, with_extension=with_extension)
            _used.take(template, folder / "server" / "data")
            server = Server.open(install, folder / "server", settings=settings)
        self._servers.append((server, folder))
        if start:
            server.start(extra_env)
        return server

    def adopt(self, server: Server) -> Server:
        """Also stop, and remove, a server that was made in another way."""
        self._servers.append((server, server.base))
        return server

    def log_tails(self) -> str:
        """Return the ends of all logs, for the report of a failed test."""
        return "\n".join(
            f"{server.log_path}:\n" + "\n".join(server.log_text().splitlines()[-40:])
            for server, _folder in self._servers
        )

    def close(self) -> None:
        """Stop all servers and remove their folders; none may have failed an assertion.

        A process that dies at one may be restarted, and the test continues.
        """
        # Stop all first: a standby's files are in the folder of its primary.
        for server, _folder in self._servers:
            server.stop("immediate")
        failed: list[str] = []
        for server, folder in self._servers:
            if not has_fault(server.install):
                failed += failed_assertions(server)
            _used.give_back(server.data)
            remove_tree(folder)
        self._servers.clear()
        assert not failed, "\n".join(failed)


def failed_assertions(server: Server) -> list[str]:
    """Return the lines of a server's log about an assertion, PostgreSQL's or libc's."""
    return [line for line in server.log_text().splitlines() if _FAILED.search(line)]


@contextmanager
def elsewhere(path: Path) -> Iterator[Path]:
    """Give a folder of the server's user that is on another file system than PATH."""
    here = path.stat().st_dev
    other = next(one for one in ("/dev/shm", "/tmp", "/var/tmp") if Path(one).stat().st_dev != here)
    folder = Path(tempfile.mkdtemp(prefix="pgflash-test-", dir=other))
    folder.chmod(0o755)
    try:
        yield make_server_dir(folder / "flash")
    finally:
        remove_tree(folder)
