# SPDX-License-Identifier: PostgreSQL
"""Tables with a cache policy: created, read past shared_buffers, and queried for their policy.

Most tests end with `in_force()`: the policy that the cache itself has for a relation's present
file, seen in pgflash_relations after the relation was read.
"""

from typing import Any, LiteralString

import psycopg

from support.patience import eventually

Connection = psycopg.Connection[tuple[Any, ...]]

#: About 250 blocks: twice as many as shared_buffers hold.
ROWS = 2000

#: Reads a table and its primary key, a few blocks at a time and in random order.
SCATTERED = (
    "select count(pad) from generate_series(1, 600) g, lateral"
    " (select pad from {table} where id = g * 797 % {rows} + 1) row"
)


def prepare(connection: Connection) -> None:
    connection.execute("create extension pgflash")
    make_table(connection, "ballast")


def make_table(connection: Connection, name: str, *, rows: int = ROWS, options: str = "") -> None:
    connection.execute(
        f"create table {name} (id int primary key, v int, pad text) {options};"
        f" insert into {name} select n, n, repeat('x', 900) from generate_series(1, {rows}) n"
    )


def push_out(connection: Connection) -> None:
    """Push everything but the ballast out of shared_buffers."""
    read_scattered(connection, "ballast")


def read_scattered(connection: Connection, table: str, *, rows: int = ROWS) -> None:
    """Read a table row by row: whole and in order it would be a scan, which fills nothing."""
    with connection.transaction():
        for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "memoize"):
            connection.execute(f"set local enable_{way} = off")
        connection.execute(SCATTERED.format(table=table, rows=rows))


def cache(connection: Connection, table: str, *, blocks_min: int = 101) -> None:
    """Read a table again until this much of it is cached: a fill may find the ring full."""

    def cached_enough() -> bool:
        push_out(connection)
        read_scattered(connection, table)
        return cached_blocks(connection, table) >= blocks_min

    assert eventually(cached_enough)


def shown(connection: Connection, relation: str) -> str | None:
    """Return the cache's policy for a relation's file; None if it has never seen the file."""
    row = connection.execute(
        "select policy from pgflash_relations where relation = to_regclass(%s) and fork = 'main'"
        " and filenode = pg_relation_filenode(to_regclass(%s))",
        [relation, relation],
    ).fetchone()
    return row[0] if row is not None else None


def in_force(connection: Connection, relation: str, *, table: str | None = None) -> str | None:
    """Read a relation (an index by its TABLE) and return the policy of its file."""
    push_out(connection)
    read_scattered(connection, table or relation)
    return shown(connection, relation)


def comes_into_force(
    connection: Connection, relation: str, policy: str, *, table: str | None = None
) -> bool:
    """Wait until a relation's file has this policy; otherwise fail with the reasons."""
    came = eventually(lambda: in_force(connection, relation, table=table) == policy)
    assert came, f"{relation} does not come to be {policy}:\n{what_decides(connection)}"
    return True


def what_decides(connection: Connection) -> str:
    """Return everything that decides which policies are seen, for the message of a failed test."""
    queries: tuple[LiteralString, ...] = (
        "select mode, mode_reason, verify_mismatches, file_shortages, used_slots"
        " from pgflash_cache",
        "select cache_file, state, state_reason from pgflash_cache_devices",
        "select * from pgflash_cache_policies",
        "select * from pgflash_cache_policy",
        "select oid::regclass, relfilenode, reltablespace from pg_class"
        " where relnamespace = 'public'::regnamespace",
        "select * from pgflash_relations where tablespace <> 1664 and"
        " coalesce(relation::oid, 16384) >= 16384",
        "select pid, backend_type, now() - backend_start, state, wait_event_type, wait_event"
        " from pg_stat_activity",
        "select pid, mode, granted from pg_locks"
        " where relation = 'pgflash_cache_policies'::regclass",
    )
    said = []
    for query in queries:
        cursor = connection.execute(query)
        names = [column.name for column in cursor.description or ()]
        said += [f"{query}:", *(f"    {dict(zip(names, row, strict=True))}" for row in cursor)]
    return "\n".join(said)


def set_policy(connection: Connection, relation: str, policy: str | None) -> None:
    connection.execute("select pgflash_set_cache_policy(%s::regclass, %s)", [relation, policy])


def waits_for_lock(asker: Connection, waiter: Connection) -> bool:
    query = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    return asker.execute(query, [waiter.info.backend_pid]).fetchone() is not None


def listed(connection: Connection) -> set[tuple[str, str, str | None]]:
    """Return what the view lists: name, policy, what it was set on."""
    rows = connection.execute("select name, policy, set_on::text from pgflash_cache_policy")
    return {(row[0], row[1], row[2]) for row in rows}


def stored(connection: Connection) -> set[tuple[str, str]]:
    rows = connection.execute("select relation::text, policy from pgflash_cache_policies")
    return {(row[0], row[1]) for row in rows}


def cached_blocks(connection: Connection, relation: str) -> int:
    row = connection.execute(
        "select coalesce(sum(cached_blocks), 0) from pgflash_relations"
        " where relation = %s::regclass",
        [relation],
    ).fetchone()
    assert row is not None
    return int(row[0])
