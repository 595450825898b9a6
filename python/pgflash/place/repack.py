# SPDX-License-Identifier: PostgreSQL
"""Move a table with pg_repack, if installed: the table can be read and written meanwhile.

pg_repack copies the table, keeps the copy up to date with a trigger, and swaps both under a brief
lock.  It is told never to end another session (--no-kill-backend).  If we are killed, it is
interrupted and cleans up.  If pg_repack itself is killed, it leaves a trigger, which slows every
write, and a log table; clean_up() removes them before the next move.

pg_repack works as a superuser, and its copy belongs to that superuser.  So what the table's
definition calls is called as superuser: by the indexes on the copy, and for ranges (subtype_diff)
even without an expression.  Its search_path ends with public, where others could plant an operator
that fits better than the catalog's.  And it keeps statements as text: who renames a schema, a
type or an extension's objects can give their name to something else.  So pg_repack is not used
where anything that it names belongs to somebody who is not a superuser, except the table itself,
which it locks.  The owner may change the indexes until then.  pg_repack remembers their definitions
before it commits its log table, and we look again before it builds any of them.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

from psycopg import sql

from pgflash.place.cluster import Cluster, said_no
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Steps
from pgflash.place.names import quote_name
from pgflash.place.relations import Relation
from pgflash.session import Connection

_PR_SET_PDEATHSIG = 1

#: Objects that repack_drop() removes: log table, key type, trigger, copy.
_ALL_OBJECTS = 4

#: Whether pg_repack has committed its log table, in the transaction that read the indexes.
_LOG = "select to_regclass('repack.log_' || %s) is not null"

#: How often to ask whether pg_repack has begun.
_LOOK_S = 0.1

#: pg_repack's search_path ends with public.  If there is none, others may create one.
_HAS_PUBLIC = "select to_regnamespace('public') is not null"

#: What pg_repack uses by name: code in public, or needed by the table and its indexes, and schemas.
#: The catalog's own objects are nobody's dependencies.
_USED = """
with moved (id) as (select %s::oid),
relations (id) as (
    select id from moved union all select indexrelid from pg_index join moved on indrelid = id),
code (kind, id, owner, namespace) as (
    select 'pg_proc'::regclass, oid, proowner, pronamespace from pg_proc
    union all select 'pg_operator'::regclass, oid, oprowner, oprnamespace from pg_operator
    union all select 'pg_opclass'::regclass, oid, opcowner, opcnamespace from pg_opclass
    union all select 'pg_type'::regclass, oid, typowner, typnamespace from pg_type),
needed as (
    select * from code where exists (select from pg_depend d join relations on id = d.objid
        where refclassid = kind and refobjid = code.id and classid = 'pg_class'::regclass)),
searched (id) as (
    select to_regnamespace('public')::oid union select namespace from needed),
schemas as (
    select oid, nspname, case nspowner when 'pg_database_owner'::regrole
            then (select datdba from pg_database where datname = current_database())
            else nspowner end as owner
      from pg_namespace where oid in (select id from searched)
        or oid in (select relnamespace from pg_class join moved on oid = id)),
used (what, owner) as (
    select pg_describe_object(kind, id, 0), owner from code
     where namespace = to_regnamespace('public')
    union all select pg_describe_object(kind, id, 0), owner from needed
    union all select format('schema "%%s"', nspname), owner from schemas)
"""

_OF_OTHERS = (
    _USED
    + "select what, rolname from used join pg_roles r on r.oid = owner and not rolsuper limit 1"
)

#: Roles of the server itself have the members that count.
_CREATORS = (
    _USED + "select nspname, rolname from schemas s join searched on id = s.oid join pg_roles r "
    "on not rolsuper and r.oid >= 16384 and has_schema_privilege(r.oid, s.oid, 'create') limit 1"
)

#: A key that identifies rows: all of its columns, and none may be null.
_HAS_KEY = """
select exists (select from pg_index i
    where indrelid = %s and indisunique and indisvalid and indpred is null and 0 <> all (indkey)
      and not exists (select from pg_attribute
          where attrelid = indrelid and attnum = any (indkey) and not attnotnull))
"""

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
    if not cluster.value(_HAS_KEY, table.oid, database=table.database):
        return "it has no primary key, and pg_repack needs one"
    return _why_unsafe(cluster, table)


def _why_unsafe(cluster: Cluster, table: Relation) -> str | None:
    """Return what pg_repack might call as superuser although it is not a superuser's, or None."""
    if not cluster.value(_HAS_PUBLIC, database=table.database):
        return "there is no schema public, and pg_repack, which is a superuser, would use a new one"
    for what, role in cluster.rows(_OF_OTHERS, table.oid, database=table.database):
        return f'pg_repack, which is a superuser, uses {what}, which belongs to role "{role}"'
    for schema, role in cluster.rows(_CREATORS, table.oid, database=table.database):
        return (
            f'role "{role}" may create objects in schema {schema}, and pg_repack, which is a '
            f"superuser, could call them"
        )
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
    words = _words(program, session, table, tablespace, with_indexes=with_indexes)
    steps.at("pg_repack")
    # Write to a file: with a pipe that nobody reads any more, it would end before it has cleaned
    # up.
    with tempfile.TemporaryFile("w+") as output, closing(_hold_up(cluster, table)) as holding:
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
            _refuse_changes(cluster, table, process)
            holding.close()
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


def _words(
    program: Path, session: Connection, table: Relation, tablespace: str, *, with_indexes: bool
) -> list[str]:
    return [
        *(str(program), "--no-kill-backend", "--no-order", "--wait-timeout=60"),
        *("--no-password", f"--table={table.sql.as_string(session)}"),
        f"--tablespace={tablespace}",
        *(["--moveidx"] if with_indexes else []),
        *(f"--host={session.info.host}", f"--port={session.info.port}"),
        *(f"--username={session.info.user}", f"--dbname={table.database}"),
    ]


def _hold_up(cluster: Cluster, table: Relation) -> Connection:
    """Return a session whose end lets pg_repack create its copy: it has one of the same name."""
    session = cluster.fresh(table.database)
    try:
        with said_no("hold up pg_repack"):
            session.execute("begin")
            name = sql.Identifier("repack", f"table_{table.oid}")
            session.execute(sql.SQL("create table {} ()").format(name))
    except BaseException:
        session.close()
        raise
    return session


def _refuse_changes(cluster: Cluster, table: Relation, process: "subprocess.Popen[bytes]") -> None:
    """Wait until pg_repack knows the indexes, and refuse those that it must not build."""
    # Its trigger says nothing: the table's owner can create one of the same name.
    while process.poll() is None and not cluster.value(_LOG, table.oid, database=table.database):
        time.sleep(_LOOK_S)
    reason = _why_unsafe(cluster, table)
    if reason is not None:
        raise PlaceError(
            f"pg_repack must not move {table.title} any more: {reason}",
            hint="The table is as it was. The next attempt takes a lock instead.",
        )


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
            "'repack_trigger')",
            table.oid,
            database=table.database,
        )
        or cluster.value(_LOG, table.oid, database=table.database)
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
