# SPDX-License-Identifier: PostgreSQL
"""The ledger of acknowledged orders, and its comparison with what the new leader has.

Each new order writes a row into failover.ledger in its own transaction, named by the run of
pgbench, the client and that client's count of tries.  pgbench logs a transaction only when the
server has acknowledged it, so its log says which names must be there.  One more may be there for
each client: the one that was in progress when the connection was lost.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

import psycopg

from pgflash.model.words import whole
from pgflash_lab.oltp.scripts import script_number
from pgflash_lab.oltp.sql_files import read_terminal
from pgflash_lab.workload import InconsistentError

#: Run, client, try.
Name: TypeAlias = tuple[int, int, int]

_PLAIN = "CALL oltp.enter_new_order(:w, :d, :c, :warehouses, :item_a, :item_c, false);"
_NAMED = """\\set try :try + 1
CALL failover.enter_new_order(:run, :client_id, :try, :w, :d, :c, :warehouses, :item_a, :item_c);"""

_NAMES = "select run, client, try from failover.ledger"
_WITHOUT_ORDER = """
select count(*) from failover.ledger l
 where not exists (select from oltp.orders o
                    where o.o_w_id = l.w_id and o.o_d_id = l.d_id and o.o_id = l.o_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A ledger that agrees."""

    acknowledged: int
    #: In the database, though the clients were not told.
    unacknowledged: int


def make_ledger(connection: psycopg.Connection) -> None:
    """Make the ledger's table and procedure."""
    text = (resources.files("pgflash_lab.failover") / "sql" / "ledger.sql").read_text()
    connection.execute(text.encode())


def named_script() -> str:
    """Return the terminal's script of a new order, which names each try in the ledger."""
    text = read_terminal("new_order.sql")
    assert _PLAIN in text
    return text.replace(_PLAIN, _NAMED)


def acknowledged(lines: Iterable[str], *, run: int, paced: bool = False) -> set[Name]:
    """Return the names of the orders that a log of pgbench's says were acknowledged.

    A transaction that was tried again has used a number for each try; the last one counts.
    """
    new_order = str(script_number("new_order"))
    tries: dict[int, int] = {}
    names: set[Name] = set()
    for line in lines:
        fields = line.split()
        if len(fields) != 7 + paced or fields[3] != new_order:
            continue  # read_log() has refused what is no line
        client = int(fields[0])
        tries[client] = tries.get(client, 0) + 1 + int(fields[-1])
        if fields[2] not in {"failed", "skipped"}:
            names.add((run, client, tries[client]))
    return names


def compare(promised: Set[Name], present: Set[Name]) -> Compared:
    """Compare the names; raise if one that was acknowledged is missing, or one is unexplained."""
    lost = sorted(promised - present)
    if lost:
        raise InconsistentError(
            f"{whole(len(lost))} of {whole(len(promised))} acknowledged orders are not on the new "
            f"leader: the first is try {lost[0][2]} of client {lost[0][1]}",
            hint="Orders were lost: keep the run's folder and report this.",
        )
    last: dict[tuple[int, int], int] = {}
    for run, client, number in promised:
        last[run, client] = max(last.get((run, client), 0), number)
    extra = present - promised
    clients = {(run, client) for run, client, _ in extra}
    # A client has one transaction in progress, with all of its tries.
    explained = len(clients) == len(extra) and all(
        number - last.get((run, client), 0) > 0 for run, client, number in extra
    )
    if not explained:
        raise InconsistentError(
            f"the new leader has {whole(len(extra))} orders that nobody can have entered",
            hint="This cannot be: keep the run's folder and report it.",
        )
    return Compared(acknowledged=len(promised), unacknowledged=len(extra))


def read_names(connection: psycopg.Connection) -> set[Name]:
    """Return the names in the database's ledger; raise if one has no order."""
    row = connection.execute(_WITHOUT_ORDER).fetchone()
    assert row is not None
    if row[0]:
        raise InconsistentError(
            f"{whole(row[0])} rows of the ledger have no order",
            hint="Half a transaction is there: keep the run's folder and report this.",
        )
    return {
        (int(run), int(client), int(tries)) for run, client, tries in connection.execute(_NAMES)
    }
