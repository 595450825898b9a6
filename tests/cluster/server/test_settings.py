# SPDX-License-Identifier: PostgreSQL
"""Settings and cache files that cannot work: the server starts and works without the cache.

Each case has one line in the log with a hint, and pgflash_cache says the same.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import REPOSITORY, ClusterFactory
from support.patience import eventually
from support.shim import FULL_FLASH, compile_shim

FOREIGN_TEXT = b"somebody's only copy of something"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The settings, the preparation, and the words expected in log and view."""

    name: str
    prepare: Callable[[Server, Path], Mapping[str, str]]
    words: str


def settings(file: Path | str, size: str = "16MB") -> dict[str, str]:
    return {"pgflash.cache_file": str(file), "pgflash.cache_size": size}


def a_missing_folder(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(flash / "missing" / "cache")


def a_folder(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(flash)


def a_device(_server: Server, _flash: Path) -> Mapping[str, str]:
    return settings("/dev/null")


def a_named_pipe(server: Server, flash: Path) -> Mapping[str, str]:
    os.mkfifo(flash / "pipe", 0o666)
    give_to_server(server, flash / "pipe")
    return settings(flash / "pipe")


def no_permission(_server: Server, flash: Path) -> Mapping[str, str]:
    closed = flash / "closed"
    closed.mkdir()
    closed.chmod(0)
    return settings(closed / "cache")


def a_foreign_owner(server: Server, flash: Path) -> Mapping[str, str]:
    if server.account is None:
        pytest.skip("only root can give a file to somebody else")
    path = flash / "cache"
    path.touch()
    path.chmod(0o666)
    return settings(path)


def foreign_content(server: Server, flash: Path) -> Mapping[str, str]:
    path = flash / "precious"
    path.write_bytes(FOREIGN_TEXT)
    give_to_server(server, path)
    return settings(path)


def a_relative_path(_server: Server, _flash: Path) -> Mapping[str, str]:
    return settings("cache")


def inside_the_data_directory(server: Server, _flash: Path) -> Mapping[str, str]:
    return settings(server.data / "cache")


def a_link_into_the_data_directory(server: Server, flash: Path) -> Mapping[str, str]:
    (flash / "link").symlink_to(server.data)
    return settings(flash / "link" / "cache")


def inside_a_tablespace(server: Server, flash: Path) -> Mapping[str, str]:
    space = make_server_dir(flash.parent / "space")
    server.start()
    with server.connect() as connection:
        connection.autocommit = True
        connection.execute(f"create tablespace fast location '{space}'")
    server.stop()
    return settings(space / "cache")


def too_small(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(flash / "cache", "256kB")


def below_zero(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(flash / "cache", "-1")


def more_than_memory_can_index(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(flash / "cache", "15TB")


def one_file_twice(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(f"{flash}/cache, {flash}/../{flash.name}/cache")


def one_file_by_two_links(server: Server, flash: Path) -> Mapping[str, str]:
    (flash / "cache").touch(mode=0o600)
    give_to_server(server, flash / "cache")
    os.link(flash / "cache", flash / "other")
    return settings(f"{flash}/cache, {flash}/other")


def one_file_by_a_link_to_its_folder(_server: Server, flash: Path) -> Mapping[str, str]:
    (flash / "link").symlink_to(flash)
    return settings(f"{flash}/cache, {flash}/link/cache")


def one_of_two_inside_the_data_directory(server: Server, flash: Path) -> Mapping[str, str]:
    return settings(f"{flash}/cache, {server.data}/cache")


def too_many_files(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(", ".join(f"{flash}/{number}" for number in range(17)))


def no_list(_server: Server, flash: Path) -> Mapping[str, str]:
    return settings(f'{flash}/cache, "')


def only_blanks(_server: Server, _flash: Path) -> Mapping[str, str]:
    return settings("  ")


CASES = (
    Case(name="a missing folder", prepare=a_missing_folder, words="could not open cache file"),
    Case(name="a folder", prepare=a_folder, words="is not a regular file"),
    Case(name="a device", prepare=a_device, words="is not a regular file"),
    Case(name="a named pipe", prepare=a_named_pipe, words="is not a regular file"),
    Case(name="no permission", prepare=no_permission, words="Permission denied"),
    Case(name="a foreign owner", prepare=a_foreign_owner, words="belongs to another user"),
    Case(name="foreign content", prepare=foreign_content, words="is not a cache file"),
    Case(name="a relative path", prepare=a_relative_path, words="is not absolute"),
    Case(
        name="inside the data directory",
        prepare=inside_the_data_directory,
        words="inside the data directory",
    ),
    Case(
        name="a link into the data directory",
        prepare=a_link_into_the_data_directory,
        words="inside the data directory",
    ),
    Case(name="one file twice", prepare=one_file_twice, words="are one file"),
    Case(name="two links to one file", prepare=one_file_by_two_links, words="are one file"),
    Case(
        name="a link to the folder",
        prepare=one_file_by_a_link_to_its_folder,
        words="are one file",
    ),
    Case(
        name="one of two inside the data directory",
        prepare=one_of_two_inside_the_data_directory,
        words="inside the data directory",
    ),
    Case(name="too many files", prepare=too_many_files, words="17 cache files are more"),
    Case(name="no list", prepare=no_list, words="is not a list of paths"),
    Case(name="only blanks", prepare=only_blanks, words="names no file"),
    Case(name="inside a tablespace", prepare=inside_a_tablespace, words="inside a tablespace"),
    Case(name="too small", prepare=too_small, words="is too small"),
    Case(name="below zero", prepare=below_zero, words="is too small"),
    Case(name="too large", prepare=more_than_memory_can_index, words="of shared memory"),
)


def give_to_server(server: Server, path: Path) -> None:
    if server.account is not None:
        os.chown(path, server.account.uid, server.account.gid)


def mode_and_reason(server: Server) -> tuple[str, str]:
    with server.connect() as connection:
        connection.execute("create extension if not exists pgflash")
        row = connection.execute("select mode, mode_reason from pgflash_cache").fetchone()
    assert row is not None
    return row[0], row[1]


def assert_works_without_cache(server: Server, words: str) -> None:
    """Fail unless the server works, the view says why there is no cache, and the log once."""
    mode, reason = mode_and_reason(server)
    assert mode == "offline"
    assert words in reason
    with server.connect() as connection:
        connection.execute("create table if not exists t as select generate_series(1, 5000) n")
        assert connection.execute("select count(*) from t").fetchone() == (5000,)
    lines = [
        line
        for line in server.log_text(since_start=True).splitlines()
        if "pgflash" in line and ("WARNING" in line or "FATAL" in line or "ERROR" in line)
    ]
    assert len(lines) == 1, lines
    assert words in lines[0]
    assert "HINT:" in server.log_text(since_start=True)


@pytest.fixture(scope="module")
def stopped(pgflash_install: PgInstall) -> Iterator[Server]:
    """One cluster for all cases; each starts it with its own settings."""
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", start=False)
    yield server
    factory.close()


@pytest.fixture
def flash(stopped: Server) -> Path:
    """An empty folder on "flash"."""
    folder = stopped.base / "flash"
    if folder.exists():
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.is_symlink():
                inner.chmod(0o700)
        shutil.rmtree(folder)
    return make_server_dir(folder)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cache_that_cannot_be_is_said_once_and_the_server_works(
    stopped: Server, flash: Path, case: Case
) -> None:
    stopped.stop()
    stopped.configure(settings(""))
    stopped.configure(case.prepare(stopped, flash))
    stopped.start()
    assert_works_without_cache(stopped, case.words)
    stopped.stop()


def test_a_refused_file_is_left_as_it_was(stopped: Server, flash: Path) -> None:
    stopped.stop()
    stopped.configure(foreign_content(stopped, flash))
    stopped.start()
    stopped.stop()
    assert (flash / "precious").read_bytes() == FOREIGN_TEXT


def test_no_cache_file_means_no_cache_and_no_word_about_it(stopped: Server) -> None:
    stopped.stop()
    stopped.configure(settings(""))
    stopped.start()
    assert mode_and_reason(stopped) == ("offline", "pgflash.cache_file is not set")
    said = [line for line in stopped.log_text(since_start=True).splitlines() if "  pgflash" in line]
    # Snapshots of the server's counters need no cache.
    assert not [line for line in said if "snapshots" not in line]
    stopped.stop()


def test_a_cache_file_of_another_running_server_is_refused(
    cluster: ClusterFactory, pgflash_install: PgInstall, stopped: Server, flash: Path
) -> None:
    stopped.stop()
    stopped.configure(settings(flash / "cache"))
    stopped.start()
    second = cluster(install=pgflash_install, preload="pgflash", settings=settings(flash / "cache"))
    assert_works_without_cache(second, "is in use by another server")
    assert eventually(lambda: mode_and_reason(stopped)[0] == "serve")
    stopped.stop()


def test_a_full_disk_is_refused_and_the_space_given_back(stopped: Server, flash: Path) -> None:
    shim = compile_shim(stopped.base, "full-disk", FULL_FLASH)
    stopped.stop()
    stopped.configure(settings(flash / "cache", "32MB"))
    stopped.start({"LD_PRELOAD": str(shim)})
    assert_works_without_cache(stopped, "no room for cache file")
    stopped.stop()
    assert (flash / "cache").stat().st_size == 0


@pytest.mark.parametrize(("name", "value"), [("cache_size", "lots"), ("verify", "sometimes")])
def test_what_is_no_value_does_not_keep_the_server_from_starting(
    stopped: Server, flash: Path, name: str, value: str
) -> None:
    stopped.stop()
    stopped.configure({**settings(flash / "cache"), f"pgflash.{name}": value})
    try:
        stopped.start()
        mode, reason = mode_and_reason(stopped)
        assert mode == "offline"
        assert reason == f'invalid value for parameter "pgflash.{name}": "{value}"'
        stopped.stop()
    finally:
        stopped.configure({"pgflash.cache_size": "16MB", "pgflash.verify": "off"})


@pytest.mark.extension
def test_a_server_for_a_single_user_runs_without_the_cache(stopped: Server, flash: Path) -> None:
    stopped.stop()
    stopped.configure(settings(flash / "cache"))
    stopped.start()
    stopped.stop()
    done = stopped.run(["postgres", "--single", "-D", str(stopped.data), "postgres"])
    assert "pgflash" not in done.stderr
    assert done.returncode == 0


def test_hooks_and_accounting_are_compiled_without_postgresql(
    pg_install: PgInstall, tmp_path: Path
) -> None:
    lines = subprocess.run(
        [
            *("make", "-C", REPOSITORY / "extension", "all", "--dry-run", "--always-make"),
            *(f"PG_CONFIG={pg_install.pg_config}", f"BUILD={tmp_path}"),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
    ).stdout.splitlines()
    seen = {
        found[1]: str(pg_install.includedir_server) in line
        for line in lines
        if (found := re.search(r" -o src/(\w+)/\w+\.o ", line))
    }
    rooms = {path.name for path in (REPOSITORY / "extension/src").iterdir() if path.is_dir()}
    assert seen == {room: room not in {"hooks", "account"} for room in rooms}


@pytest.mark.extension
def test_a_library_that_takes_a_call_away_from_pgflash_is_found_out(
    stopped: Server, flash: Path
) -> None:
    thief = stopped.base / "thief.so"
    subprocess.run(
        [
            *("gcc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-fvisibility=hidden"),
            *("-x", "c", "-o", thief, "-", REPOSITORY / "extension/src/hooks/imports.c"),
            *(REPOSITORY / "extension/src/hooks/objects.c", "-ldl"),
            *(f"-I{REPOSITORY / room}" for room in ("extension/src", "core/include")),
            f"-I{stopped.install.includedir_server}",
        ],
        input="""
        #include "postgres.h"
        #include "fmgr.h"
        #include <sys/uio.h>
        #include <unistd.h>
        #include "hooks/imports.h"

        __attribute__((visibility("default"))) const Pg_magic_struct *Pg_magic_func(void);
        PG_MODULE_MAGIC;
        __attribute__((visibility("default"))) void _PG_init(void);

        /* Point the reads of the server back to libc. */
        void _PG_init(void)
        {
            static const char *const nothing[] = { NULL };
            const char *name;
            Import imports[] = { { "pread", (void (*)(void)) pread },
                                 { "preadv", (void (*)(void)) preadv } };

            (void) imports_replace(imports, 2, nothing, nothing, &name);
        }
        """,
        text=True,
        check=True,
    )
    thief.chmod(0o755)
    stopped.stop()
    stopped.configure({**settings(flash / "cache"), "shared_preload_libraries": f"pgflash,{thief}"})
    try:
        stopped.start()
        assert eventually(lambda: mode_and_reason(stopped)[0] == "offline")
        assert "self-test failed" in mode_and_reason(stopped)[1]
        assert "pread() does not pass pgflash" in stopped.log_text(since_start=True)
        with stopped.connect() as connection:
            connection.autocommit = True
            with pytest.raises(psycopg.Error, match="could not set the flash cache"):
                connection.execute("select pgflash_cache_set_mode('serve')")
        stopped.stop()
    finally:
        stopped.configure({"shared_preload_libraries": "pgflash"})
