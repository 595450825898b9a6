# SPDX-License-Identifier: PostgreSQL
"""Move a table with pg_repack, if installed: the table can be read and written meanwhile.

pg_repack copies the table, keeps the copy up to date with a trigger, and swaps both under a brief
lock.  It is told never to end another session (--no-kill-backend).  If we are killed, it is
interrupted and cleans up.  If pg_repack itself is killed, it leaves a trigger, which slows every
write, and a log table; clean_up() removes them before the next move.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from psycopg import sql

from pgflash.place.cluster import Cluster
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Steps
from pgflash.place.names import quote_name
from pgflash.place.relations import Relation

_PR_SET_PDEATHSIG = 1

#: Objects that repack_drop() removes: log table, key type, trigger, copy.
_ALL_OBJECTS = 4

_PACKAGED = "/usr/lib/postgresql/{major}/bin/pg_repack"


def why_not(cluster: Cluster, table: Relation, tablespace: str) -> str | None:
    """Return why pg_repack cannot move a table to a tablespace, or None if it can."""
    installed = _installed(cluster, table.database)
    if installed is None:
        return "pg_repack is not installed in the database"
    program = _program(cluster)
    if program is None:
        return "there is no program pg_repack"
    if installed != (version := _version(program)):
        return f"the program pg_repack is {version}, the extension {installed}"
    if table.kind != "r" or table.persistence != "p":
        return "pg_repack moves plain tables only, and none that is unlogged"
    if not cluster.is_superuser:
        return "pg_repack needs a superuser"
    for name in (table.tablespace, tablespace):
        # pg_repack creates indexes there and does not quote the name.
        if quote_name(name) != name:
            return f'the name of tablespace "{name}" needs quotes, which pg_repack does not write'
    if not cluster.value(
        "select exists (select from repack.tables where relid = %s and pkid is not null)",
        table.oid,
        database=table.database,
    ):
        return "it has no primary key, and pg_repack needs one"
    return None


def repack(
    cluster: Cluster, table: Relation, tablespace: str, steps: Steps, *, with_indexes: bool
) -> None:
    """Move a table, and its indexes as well if asked to."""
    clean_up(cluster, table)
    program = _program(cluster)
    if program is None:
        raise PlaceError("the program pg_repack has gone", hint="Install it again.")
    session = cluster.session(table.database)
    # Relations in the database's default tablespace name no tablespace, and stay there.
    options = f"{os.environ.get('PGOPTIONS', '')} -c default_tablespace="
    environment = {**os.environ, "PGAPPNAME": "pgflash", "PGOPTIONS": options}
    if session.info.password:
        environment["PGPASSWORD"] = session.info.password
    quoted = table.sql.as_string(session)
    words = [
        *(str(program), "--no-kill-backend", "--no-order", "--wait-timeout=60"),
        *("--no-password", f"--table={quoted}"),
        f"--tablespace={tablespace}",
        *(["--moveidx"] if with_indexes else []),
        *(f"--host={session.info.host}", f"--port={session.info.port}"),
        *(f"--username={session.info.user}", f"--dbname={table.database}"),
    ]
    steps.at("pg_repack")
    # Write to a file: with a pipe that nobody reads any more, it would end before it has cleaned
    # up.
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # If we are killed, it is interrupted and cleans up.
            preexec_fn=_interrupt_with_parent,
        )
        try:
            process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        output.seek(0)
        said = output.read()
    lines = [line for line in said.splitlines() if re.match(r"(ERROR|WARNING|DETAIL)", line)]
    if process.returncode != 0:
        raise PlaceError(
            f"pg_repack failed for {table.title}: {' '.join(lines[-2:]) or process.returncode}",
            hint="The table is as it was.",
        )
    if lines:
        steps.listener.note(f"pg_repack: {' '.join(lines[-2:])}")


def clean_up(cluster: Cluster, table: Relation) -> None:
    """Remove what a killed pg_repack left behind at a table."""
    if _installed(cluster, table.database) is None or not _has_leftovers(cluster, table):
        return
    running = cluster.value(
        "select count(*) from pg_locks l join pg_class c on c.oid = l.relation "
        "where l.locktype = 'relation' and c.relname = 'log_' || %s and l.granted",
        table.oid,
        database=table.database,
    )
    if running:
        raise PlaceError(
            f"another pg_repack works on {table.title}", hint="Wait until it has ended."
        )
    cluster.run(
        sql.SQL("select repack.repack_drop({}, {})").format(table.oid, _ALL_OBJECTS),
        database=table.database,
        doing=f"remove what a pg_repack left at {table.title}",
    )


def _has_leftovers(cluster: Cluster, table: Relation) -> bool:
    return bool(
        cluster.value(
            "select exists (select from pg_trigger where tgrelid = %s and tgname = "
            "'repack_trigger') or to_regclass('repack.log_' || %s) is not null",
            table.oid,
            table.oid,
            database=table.database,
        )
    )


def _installed(cluster: Cluster, database: str) -> str | None:
    version = cluster.value(
        "select extversion from pg_extension where extname = 'pg_repack'", database=database
    )
    return None if version is None else str(version)


def _program(cluster: Cluster) -> Path | None:
    """Return the program: Debian's for this major version, or the one on the path."""
    packaged = Path(_PACKAGED.format(major=cluster.major))
    found = shutil.which("pg_repack")
    if packaged.exists():
        return packaged
    return Path(found) if found else None


def _version(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().rpartition(" ")[2]


def _interrupt_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
