# SPDX-License-Identifier: PostgreSQL
"""Traps in a schema: operators and functions that a careless statement finds before the catalog's.

PostgreSQL looks for an operator or function with exactly the requested types, then for the nearest.
A search_path of public does not hide what the catalog has exactly; but if the catalog has something
only by a cast, anybody who may create objects in public can offer an exact match.  So there is a
trap for each operator that we use and each pair of types, and for each function of the catalog
whose name precedes a parenthesis anywhere in our program; and if the extension is in the same
schema, functions with its names for other types.  A trap that is called reports it in the server's
log, and tries to make its owner a superuser.
"""

import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

import pgflash

TYPES = (
    *("oid", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "name", '"char"'),
    *("varchar", "bool", "timestamptz", "interval", "jsonb", "regclass", "pg_lsn", "text[]"),
    *("oid[]", "date"),
)
#: For functions with more than one argument, more types would give too many traps.
PAIRED = ("oid", "int4", "int8", "text", "name", "pg_lsn", "jsonb", "text[]", "timestamptz")
OPERATORS = {
    "bool": ("=", "<>", "<", ">", "<=", ">=", "~", "!~", "~~", "!~~"),
    "text": ("||", "->>"),
    "jsonb": ("->",),
    "": ("+", "-", "*", "/"),  # of the type of the left operand
}
_BATCH = 500

_BODY = """
begin
  raise log 'TRAP {name}';
  begin
    execute 'alter role {owner} superuser';
  exception when others then
    null;
  end;
  return null;
end
"""


def set_traps(connection: psycopg.Connection[Any], owner: str, schema: str = "public") -> int:
    """Put traps into a schema, as a role that may create there; return their number."""
    rows = connection.execute(
        "select p.proname, p.pronargs, pg_catalog.format_type(min(p.prorettype::int8)::oid, null) "
        "from pg_catalog.pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace "
        "and p.proname = any(%s) and p.pronargs <= 3 and p.prokind in ('f', 'a') group by 1, 2",
        (sorted(_names_in_program()),),
    ).fetchall()
    own = connection.execute(
        "select distinct p.proname, p.pronargs, 'text' from pg_catalog.pg_proc p "
        "where p.pronamespace = %s::regnamespace and p.proname like 'pgflash%%' "
        "and p.pronargs between 1 and 2",
        (schema,),
    ).fetchall()
    statements = [
        *_operators(owner, schema),
        *itertools.chain.from_iterable(_functions(owner, schema, *row) for row in rows),
    ]
    connection.execute("set check_function_bodies = off")
    for begin in range(0, len(statements), _BATCH):
        connection.execute("".join(statements[begin : begin + _BATCH]).encode())
    for row in own:
        for statement in _functions(owner, schema, *row):
            # One of them is the extension's own.
            with contextlib.suppress(psycopg.errors.DuplicateFunction):
                connection.execute(statement.encode())
    return len(statements)


def sprung(log: str) -> set[str]:
    """Return the traps that are named in a server's log."""
    return set(re.findall(r"LOG:  TRAP (.*)", log))


def _names_in_program() -> set[str]:
    """Return every word before a parenthesis in our program, which includes SQL functions."""
    found: set[str] = set()
    for path in Path(pgflash.__file__).parent.rglob("*.py"):
        if "lab" not in path.parts:
            found |= set(re.findall(r"\b([a-z][a-z0-9_]*)\(", path.read_text()))
    return found


def _operators(owner: str, schema: str) -> Iterator[str]:
    """Yield for each pair of types a function for each result, and the operators that call it."""
    for number, (left, right) in enumerate(itertools.product(TYPES, TYPES)):
        for result, signs in OPERATORS.items():
            for place, sign in enumerate(signs):
                name = f"trap_{number}_{result or 'own'}_{place}"
                yield _function(
                    f"{schema}.{name}({left}, {right})",
                    result or left,
                    owner,
                    f"{left} {sign} {right}",
                )
                yield (
                    f"create operator {schema}.{sign} "
                    f"(leftarg = {left}, rightarg = {right}, function = {schema}.{name});"
                )


def _functions(owner: str, schema: str, name: str, count: int, result: str) -> Iterator[str]:
    """Yield functions with this name and number of arguments, for all types."""
    if result.startswith('"any') or result.endswith("_handler") or result in _PSEUDO:
        result = "text"
    types = TYPES if count == 1 else PAIRED
    for arguments in itertools.product(types, repeat=count):
        head = f'{schema}."{name}"({", ".join(arguments)})'
        yield _function(head, result, owner, head.replace('"', ""))


_PSEUDO = frozenset(
    {"record", "anyelement", "anyarray", "anycompatible", "anycompatiblearray", "internal", "void"}
)


def _function(head: str, result: str, owner: str, name: str) -> str:
    body = _BODY.format(name=name.replace("'", ""), owner=owner)
    return f"create function {head} returns {result} language plpgsql as $trap${body}$trap$;"
