# SPDX-License-Identifier: PostgreSQL
"""A server with the flash cache under a small oltp load, for pages that watch it.

The load is small enough to leave the machine to the browser: a warehouse, two terminals, a few
dozen transactions a second; shared_buffers are so small that reads reach flash and disk.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from pgflash_lab.account import make_server_dir
from pgflash_lab.oltp import OltpParameters, load
from pgflash_lab.oltp.driver import choose_constants, pgbench_command
from pgflash_lab.oltp.scripts import SCRIPTS
from pgflash_lab.oltp.sql_files import read_terminal
from pgflash_lab.oltp.validity import take_mark
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, client_program, create_cached
from support.cluster import ClusterFactory
from support.workloads import parameters_of

PARAMETERS = parameters_of(OltpParameters, warehouses=1, measure_s=3600, seed=5)
#: Transactions a second: enough to see, and little for a machine that also runs a browser.
FEW = 20

#: A table name that would be a script if it were not escaped.
EVIL = "<script>document.title='evil'</script>"


def create_watched(factory: ClusterFactory, install: PgInstall) -> CachedServer:
    """Return a loaded server with the extension, a cache and a table named EVIL.

    Statements have identifiers, and texts where the installation has pg_stat_statements.
    """
    has_texts = (install.sharedir / "extension" / "pg_stat_statements.control").exists()
    cached = create_cached(
        factory,
        install,
        settings={
            "shared_buffers": "4MB",
            "pgflash.verify": "off",
            "pgflash.write_budget": "1TB",
            "shared_preload_libraries": "pgflash" + has_texts * ",pg_stat_statements",
            "compute_query_id": "on",
        },
    )
    load(cached.server.conninfo(), PARAMETERS)
    with cached.server.connect() as connection:
        connection.execute(f'create table "{EVIL}" as select generate_series(1, 20000) as i')
        if has_texts:
            connection.execute("create extension pg_stat_statements")
        connection.execute("select pgflash_set_cache_policy(%s, 'keep')", (f'"{EVIL}"',))
        connection.execute("checkpoint")
    return cached


@contextmanager
def under_load(server: Server, *, rate_tps: int = FEW) -> Iterator[subprocess.Popen[str]]:
    """Run the mix while the block lasts."""
    folder = make_server_dir(server.base / "load")
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        mark = take_mark(connection)
    constants = choose_constants(seed=mark.seed, load_constant=mark.c_last_constant)
    for script in SCRIPTS:
        path = folder / script.file
        path.write_text(read_terminal(script.file))
        path.chmod(0o644)
    command = pgbench_command(
        Path(client_program(server.install, "pgbench")),
        server.conninfo(),
        PARAMETERS,
        constants,
        scripts_dir=folder,
        log_prefix=folder / "transactions",
    )
    command.insert(1, f"--rate={rate_tps}")
    running = server.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.terminate()
        with suppress(subprocess.TimeoutExpired):
            running.wait(10)
