# SPDX-License-Identifier: PostgreSQL
"""Invalid settings, and limits that leave no room: the cache is the configured one, or none.

A typing error in a setting must not make a cache of 1 GB on a drive that has less, wear flash
without a limit, or leave blocks unverified; and a library that has taken all places for background
workers must not stop the cache for ever, nor silently.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached, process_titles
from support.cluster import ClusterFactory
from support.patience import eventually, until
from support.warm import kill_backend

#: Invalid values of a setting, by its kind.
NO_VALUE = {"integer": "10XB", "real": "5XB", "bool": "maybe", "enum": "al"}

#: Any string is a value; strings that cannot work are tested separately.
JUDGED = {"pgflash.cache_file": "cache", "pgflash.snapshot_database": None}

#: These do not concern the cache: they run with their defaults.
NOT_OF_CACHE = {
    "pgflash.restrict_objects",
    "pgflash.advice",
    "pgflash.account",
    "pgflash.account_relations",
    "pgflash.snapshot_interval",
    "pgflash.snapshot_retention",
    "pgflash.sample_rate",
    "pgflash.sample_memory",
    "pgflash.statements_max",
    "pgflash.track_statements",
    "pgflash.fill_neighbours",
    "pgflash.load_rate",
    "pgflash.cache_list_interval",
    "pgflash.cache_list_wal_budget",
}


@pytest.fixture
def cached(cluster: ClusterFactory, pgflash_install: PgInstall) -> CachedServer:
    """Return a server with a small cache."""
    cached = create_cached(cluster, pgflash_install, settings={"pgflash.cache_size": "16MB"})
    assert cached.cache_file.stat().st_size < 2**25
    return cached


def restart(cached: CachedServer) -> None:
    cached.server.stop()
    cached.start()


def since_start(cached: CachedServer) -> str:
    return cached.server.log_text(since_start=True)


def own_settings(cached: CachedServer) -> dict[str, tuple[str, str]]:
    """Return kind and default of each of pgflash's settings."""
    with cached.server.connect() as connection:
        rows = connection.execute(
            "select name, vartype, boot_val from pg_settings "
            "where name like 'pgflash.%' and context <> 'internal'"
        ).fetchall()
    return {str(name): (str(kind), str(default)) for name, kind, default in rows}


@pytest.mark.extension
def test_no_setting_of_the_cache_falls_back_to_its_default(cached: CachedServer) -> None:
    known = own_settings(cached)
    assert len(known) >= 16
    assert {kind for kind, _default in known.values()} <= NO_VALUE.keys() | {"string"}
    for name, (kind, _default) in known.items():
        if name in NOT_OF_CACHE or name in JUDGED:
            continue
        before = cached.server.settings.get(name)
        cached.server.configure({name: NO_VALUE[kind]})
        restart(cached)
        view = cached.view()
        reason = f'invalid value for parameter "{name}": "{NO_VALUE[kind]}"'
        assert view["mode"] == "offline", name
        assert view["mode_reason"] == reason
        assert f"pgflash is off: {reason}" in since_start(cached)
        assert view["size_bytes"] == 0
        assert cached.cache_file.stat().st_size < 2**25, "no cache of 1 GB"
        cached.server.configure({name: before})
    restart(cached)
    cached.await_serving()


@pytest.mark.extension
def test_what_is_not_the_caches_runs_with_its_default_and_the_log_says_so(
    cached: CachedServer,
) -> None:
    known = own_settings(cached)
    assert known.keys() >= NOT_OF_CACHE
    cached.server.configure({name: NO_VALUE[known[name][0]] for name in NOT_OF_CACHE})
    restart(cached)
    cached.await_serving()
    with cached.server.connect() as connection:
        for name in NOT_OF_CACHE:
            assert f'pgflash: invalid value for parameter "{name}"' in since_start(cached)
            row = connection.execute(
                "select setting = boot_val from pg_settings where name = %s", [name]
            ).fetchone()
            assert row == (True,), name


@pytest.mark.extension
def test_a_string_is_judged_by_what_it_names(cached: CachedServer) -> None:
    assert {name for name, (kind, _) in own_settings(cached).items() if kind == "string"} == set(
        JUDGED
    )
    cached.server.configure({"pgflash.cache_file": JUDGED["pgflash.cache_file"]})
    restart(cached)
    assert "is not absolute" in cached.view()["mode_reason"]


@pytest.mark.extension
def test_while_the_server_runs_a_setting_keeps_the_value_it_had(cached: CachedServer) -> None:
    cached.server.configure({"pgflash.write_budget": "200MB"})
    cached.server.reload()
    until(lambda: cached.view()["write_budget_left_bytes"] is not None)
    cached.server.configure({"pgflash.write_budget": "5XB"})
    cached.server.reload()
    until(lambda: '"pgflash.write_budget": "5XB"' in since_start(cached))
    assert cached.assert_serving()["write_budget_left_bytes"] > 0
    with cached.server.connect() as connection:
        for value in ("5XB", "-1"):
            with pytest.raises(psycopg.DataError):
                connection.execute(f"alter system set pgflash.write_budget = '{value}'")


@pytest.mark.extension
def test_a_budget_of_less_than_a_megabyte_is_one(cached: CachedServer) -> None:
    cached.server.configure({"pgflash.write_budget": "100kB"})
    restart(cached)
    cached.await_serving()
    left = cached.view()["write_budget_left_bytes"]
    assert left is not None
    assert left <= 100 * 1024


#: A library that takes all places for background workers until a file is gone.
OCCUPY = r"""
#include "postgres.h"
#include <unistd.h>
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);
PGDLLEXPORT void occupy_main(Datum argument);
void
occupy_main(Datum argument)
{
	BackgroundWorkerUnblockSignals();
	while (access("occupied", F_OK) == 0 && PostmasterIsAlive())
		pg_usleep(20000L);
	proc_exit(0);
}
void
_PG_init(void)
{
	for (int i = 0; i < max_worker_processes; i++)
	{
		BackgroundWorker worker = {0};

		worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
		worker.bgw_restart_time = BGW_NEVER_RESTART;
		snprintf(worker.bgw_name, BGW_MAXLEN, "occupy %d", i);
		snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name), "occupy");
		snprintf(worker.bgw_function_name, BGW_MAXLEN, "occupy_main");
		RegisterBackgroundWorker(&worker);
	}
}
"""


def install_occupy(install: PgInstall, folder: Path) -> None:
    """Build the library into the private installation."""
    config = {
        what: subprocess.check_output([install.pg_config, f"--{what}"], text=True).strip()
        for what in ("includedir-server", "pkglibdir")
    }
    source = folder / "occupy.c"
    source.write_text(OCCUPY)
    library = Path(config["pkglibdir"]) / "occupy.so"
    subprocess.run(
        [
            *(
                "gcc",
                "-O1",
                "-Wall",
                "-Werror",
                "-shared",
                "-fPIC",
                "-I",
                config["includedir-server"],
            ),
            *("-o", library, source),
        ],
        check=True,
    )
    library.chmod(0o755)


def occupy(cached: CachedServer, folder: Path) -> Path:
    """Let another extension take all places at the start; return the file whose removal ends it."""
    install_occupy(cached.server.install, folder)
    cached.server.stop()
    occupied = cached.server.data / "occupied"
    occupied.touch()
    cached.server.configure(
        {
            "shared_preload_libraries": "occupy,pgflash",
            "max_worker_processes": "6",
            "restart_after_crash": "on",
        }
    )
    cached.start()
    return occupied


@pytest.mark.extension
def test_where_no_background_worker_is_left_it_says_so_and_serves_when_there_is_one(
    cached: CachedServer, tmp_path: Path
) -> None:
    """Another extension takes all places at the start, and leaves them later."""
    occupied = occupy(cached, tmp_path)
    assert "Raise max_worker_processes by 5 or more." in since_start(cached)
    view = cached.view()
    assert view["mode"] == "passthrough"
    names = (
        "pgflash",
        "pgflash writer",
        "pgflash policies",
        "pgflash snapshots",
        "pgflash sampler",
    )
    assert view["missing_workers"] == ", ".join(f'"{name}"' for name in names)
    assert view["mode_reason"] == (
        f"there is no background worker for {view['missing_workers']}: raise max_worker_processes"
    )
    occupied.unlink()

    def all_are_there() -> bool:
        # Each look is a statement, which tries again.
        view = cached.view()
        said = since_start(cached)
        return (
            view["mode_reason"] == "working"
            and view["writer_running"]
            and all(f'background worker for "{name}" now' in said for name in names)
        )

    until(all_are_there)
    for name in names:
        assert since_start(cached).count(f'background worker for "{name}" now') == 1

    # A crash keeps them, once each.
    kill_backend(cached)

    def workers() -> list[str]:
        titles = (title for _pid, title in process_titles(cached.server))
        return sorted(title for title in titles if title in names)

    until(lambda: workers() == sorted(names))
    cached.view()
    assert since_start(cached).count('background worker for "pgflash" now') == 1


@pytest.mark.extension
def test_one_place_that_is_taken_by_postgres_itself(cached: CachedServer) -> None:
    cached.server.configure({"max_worker_processes": "1"})
    restart(cached)
    assert 'no background worker for "pgflash", ' in cached.view()["mode_reason"]
    assert 'there are no background workers for "pgflash", "pgflash writer"' in since_start(cached)
    cached.server.configure({"max_worker_processes": "8"})
    restart(cached)
    cached.await_serving()


# ---- what would happen without


def test_who_takes_the_default_wears_flash_without_a_limit(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    cached = create_cached(cluster, broken_install("NO_VALUE"))
    cached.server.configure({"pgflash.write_budget": "5XB"})
    restart(cached)
    cached.await_serving()
    assert cached.view()["write_budget_left_bytes"] is None


def test_who_does_not_try_again_never_serves(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall], tmp_path: Path
) -> None:
    cached = create_cached(cluster, broken_install("LEFT_OUT"))
    occupy(cached, tmp_path).unlink()
    until(lambda: not any(title.startswith("occupy") for _, title in process_titles(cached.server)))
    assert not eventually(lambda: cached.view()["mode"] == "serve", seconds=3)
