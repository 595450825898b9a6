# SPDX-License-Identifier: PostgreSQL
"""The table that tests read: rows of half a kilobyte, found by their number."""

from typing import Any

import psycopg


def create_items(connection: psycopg.Connection[Any], rows: int, *, more: str = "") -> None:
    """Make the table with so many rows, and MORE columns between the number and the padding."""
    connection.execute(
        f"create table item as select n as id, {more} repeat('x', 500) as pad"
        f" from generate_series(1, {rows}) n"
    )
    connection.execute("alter table item add primary key (id)")


def settle(connection: psycopg.Connection[Any]) -> None:
    """Leave nothing to write: all is committed, vacuumed and in its files."""
    connection.commit()
    connection.autocommit = True
    connection.execute("vacuum analyze item")
    connection.execute("checkpoint")
