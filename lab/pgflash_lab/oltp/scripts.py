# SPDX-License-Identifier: PostgreSQL
"""The terminal's scripts and how often each runs.

The standard mix is 45/43/4/4/4.  New-Order's rollbacks (1 %) and the choice by last name (60 %) are
scripts of their own, with their weights: the draw is the same, and pgbench's log, which records
only script numbers, then counts them.
"""

from dataclasses import dataclass

from pgflash_lab.oltp.model import Mix


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One pgbench script: its transaction, and its share of the standard mix in ten thousand."""

    name: str
    transaction: str
    weight: int

    @property
    def file(self) -> str:
        """Return its file below terminal/."""
        return f"{self.name}.sql"


#: In the order of pgbench's script numbers.
SCRIPTS = (
    Script(name="new_order", transaction="new_order", weight=4_455),
    Script(name="new_order_rollback", transaction="new_order", weight=45),
    Script(name="payment_by_name", transaction="payment", weight=2_580),
    Script(name="payment_by_id", transaction="payment", weight=1_720),
    Script(name="order_status_by_name", transaction="order_status", weight=240),
    Script(name="order_status_by_id", transaction="order_status", weight=160),
    Script(name="delivery", transaction="delivery", weight=400),
    Script(name="stock_level", transaction="stock_level", weight=400),
)

#: One transaction in ten writes; the reads ask for a customer's last order, and sometimes for a
#: district's stock.
_READ_MOSTLY = {
    "new_order": 495,
    "new_order_rollback": 5,
    "payment_by_name": 300,
    "payment_by_id": 200,
    "order_status_by_name": 5_340,
    "order_status_by_id": 3_560,
    "delivery": 0,
    "stock_level": 100,
}

TRANSACTIONS = tuple(dict.fromkeys(script.transaction for script in SCRIPTS))


def weight_of(script: Script, mix: Mix) -> int:
    """Return a script's share of a mix, in ten thousand."""
    return script.weight if mix is Mix.STANDARD else _READ_MOSTLY[script.name]


def script_number(name: str) -> int:
    """Return pgbench's number of a script."""
    return next(number for number, script in enumerate(SCRIPTS) if script.name == name)
