# SPDX-License-Identifier: PostgreSQL
"""Statements inside another one, more of them than a snapshot has rows for."""

from typing import Any

import psycopg

from pgflash.model.snapshot import Section
from pgflash.model.snapshot_sections import SECTIONS

MANY = SECTIONS["statements"].limit + 20


def run_nested(connection: psycopg.Connection[Any]) -> None:
    """Run MANY different statements inside one, each counted (as superuser)."""
    connection.execute("set pg_stat_statements.track = 'all'")
    connection.execute(
        f"do $$ begin for n in 1..{MANY} loop"
        " execute 'select ' || repeat('1, ', n) || '1'; end loop; end $$"
    )
    connection.execute("reset pg_stat_statements.track")


def check_nested(section: Section) -> None:
    """Check that all calls of these statements are there as calls inside another."""
    inside = [one for one in section.records() if one["toplevel"] == 0]
    calls = [one["calls"] for one in inside]
    assert sum(calls) >= MANY  # type: ignore[arg-type]
    (rest,) = (one for one in inside if one["query_id"] is None)
    assert rest["calls"] >= 20  # type: ignore[operator]
    (sent,) = (one for one in section.records() if one["query_id"] is None and one["toplevel"] == 1)
    assert sent["calls"] < MANY  # type: ignore[operator]
