# SPDX-License-Identifier: PostgreSQL
"""SQL that declares the library's functions differently gets an error, and never a crash."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.world import Connection

pytestmark = pytest.mark.extension


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A function of the library that returns rows."""

    name: str
    is_set: bool
    arguments: list[str]
    columns: list[tuple[str, str]]

    def make(self) -> str:
        """Return what declares it, under another name."""
        parts = [*self.arguments, *(f'out "{name}" {type_}' for name, type_ in self.columns)]
        return (
            f"create function tampered({', '.join(parts)}) "
            f"returns {'setof ' if self.is_set else ''}record "
            f"as '$libdir/pgflash', '{self.name}' language c"
        )

    def call(self) -> str:
        """Return what calls it."""
        return f"select * from tampered({', '.join(f'null::{one}' for one in self.arguments)})"


def functions_with_rows(connection: Connection) -> list[Rows]:
    """Return all functions of the extension that return columns."""
    return [
        Rows(
            name=name,
            is_set=is_set,
            arguments=arguments,
            columns=list(zip(names, types, strict=True)),
        )
        for name, is_set, arguments, names, types in connection.execute(
            """
            select p.prosrc, p.proretset,
                array(select format_type(t, null) from unnest(p.proargtypes) t),
                array_agg(o.name order by o.place),
                array_agg(format_type(o.type, null) order by o.place)
            from pg_proc p
            join pg_depend d on d.objid = p.oid and d.classid = 'pg_proc'::regclass
                and d.deptype = 'e'
            join pg_extension e on e.oid = d.refobjid and e.extname = 'pgflash'
            cross join unnest(p.proargnames, p.proallargtypes, p.proargmodes)
                with ordinality o(name, type, mode, place)
            where o.mode = 'o'
            group by p.oid
            """
        ).fetchall()
    ]


def tampered(one: Rows) -> Iterator[Rows]:
    """Yield other declarations of a function."""
    by_name = one.name == "pgflash_cache_row"  # a column that is not there is not missed
    if not by_name:
        yield replace(one, columns=[*one.columns, ("more", "bigint")])
        if len(one.columns) > 2:
            yield replace(one, columns=one.columns[:-1])
    for place, (name, type_) in enumerate(one.columns):
        other = "bigint" if type_ == "text" else "text"
        yield replace(one, columns=[*one.columns[:place], (name, other), *one.columns[place + 1 :]])
    if one.arguments:
        yield replace(one, arguments=one.arguments[:-1])


def test_a_function_that_is_declared_otherwise_is_an_error(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The SQL is of another version than the library, in every possible way."""
    server = cluster(
        install=pgflash_install,
        preload="pgflash",
        settings={"pgflash.snapshot_interval": "0", "pgflash.cache_size": "16MB"},
    )
    tried = 0
    with server.connect() as connection:
        connection.prepare_threshold = None  # the same call is of another function each time
        connection.execute("create extension pgflash")
        found = functions_with_rows(connection)
        assert len(found) > 14
        for one in found:
            connection.execute(one.make())
            connection.execute(one.call()).fetchall()
            connection.execute("drop function tampered")
            for other in tampered(one):
                connection.execute(other.make())
                with pytest.raises(psycopg.errors.DatatypeMismatch) as refused:
                    connection.execute(other.call()).fetchall()
                assert "ALTER EXTENSION pgflash UPDATE" in str(refused.value.diag.message_hint)
                connection.execute("drop function tampered")
                tried += 1
    assert tried > 150
    assert "terminated by signal" not in server.log_text()


@pytest.mark.parametrize("fault", ["", "ROW_TYPE"])
def test_a_column_of_another_type_is_not_read_as_if_it_were_right(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall], fault: str
) -> None:
    """The control: a count of calls, declared as a time, is a number that means nothing."""
    server = cluster(install=broken_install(fault), preload="pgflash")
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        (one,) = [f for f in functions_with_rows(connection) if f.name == "pgflash_io_rows"]
        columns = [(n, "float8" if n == "calls" else t) for n, t in one.columns]
        connection.execute(replace(one, columns=columns).make())
        try:
            rows = connection.execute(one.call()).fetchall()
        except psycopg.errors.DatatypeMismatch:
            rows = []
        assert bool(rows) is (fault != "")


def test_a_table_of_policies_with_another_column_is_an_error(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A superuser has added a column to the table that the library fills."""
    server = cluster(install=pgflash_install, preload="pgflash")
    with server.connect() as connection:
        connection.execute("create extension pgflash; create table t ()")
        connection.execute("alter table pgflash_cache_policies add column remark text")
        for statement in (
            "select pgflash_set_cache_policy('t', 'none')",
            "select * from pgflash_cache_policy",
        ):
            with pytest.raises(psycopg.errors.DatatypeMismatch):
                connection.execute(statement)
    assert "terminated by signal" not in server.log_text()
