# SPDX-License-Identifier: PostgreSQL
"""Conditions that a workload's database must meet, read from a .sql file.

Each begins with a line "-- condition NUMBER: WHAT MUST HOLD", and its statement returns how many
rows violate the condition.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from pgflash.machine.host import memory_bytes
from pgflash.model.words import whole
from pgflash_lab.workload import InconsistentError

_CONDITION = re.compile(r"^-- condition (\d+): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionResult:
    """One consistency condition and how many rows violate it."""

    number: int
    condition: str
    violations: int

    @property
    def holds(self) -> bool:
        """Tell whether no row violates it."""
        return self.violations == 0


def split_conditions(text: str) -> list[tuple[int, str, str]]:
    """Return (number, what must hold, statement) for each condition, in order."""
    parts = _CONDITION.split(text)[1:]
    return [
        (int(number), condition, statement.strip())
        for number, condition, statement in zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
    ]


def check_conditions(conninfo: str, text: str) -> list[ConditionResult]:
    """Check every condition in one snapshot, and return them all, good and bad."""
    with psycopg.connect(conninfo, application_name="pgflash check") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return check_in_session(connection, text)


def check_in_session(connection: psycopg.Connection, text: str) -> list[ConditionResult]:
    """Check every condition in the connection's transaction."""
    prepare(connection)
    results = []
    for number, condition, statement in split_conditions(text):
        row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        results.append(ConditionResult(number=number, condition=condition, violations=int(row[0])))
    return results


def prepare(connection: psycopg.Connection) -> None:
    """Give the transaction memory for its hashes: parallel workers have as much each."""
    work_mem = min(256 << 20, memory_bytes() // 64) >> 20
    connection.execute(f"set local work_mem = '{work_mem}MB'".encode())
    # These are a handful of plain aggregates: compiling them costs more than it saves.
    connection.execute("set local jit = off")


def require_all(results: Sequence[ConditionResult]) -> tuple[str, ...]:
    """Return the conditions that were checked and hold; raise if one does not."""
    broken = [one for one in results if not one.holds]
    if broken:
        raise InconsistentError(
            "the database is inconsistent: "
            + "; ".join(f"{one.condition} ({whole(one.violations)} rows)" for one in broken),
            hint="Keep the server's log and the run's folder, and report this.",
        )
    return tuple(f"{one.number} {one.condition}" for one in results)
