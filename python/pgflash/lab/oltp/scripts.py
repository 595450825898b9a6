# SPDX-License-Identifier: PostgreSQL
"""The terminal's scripts and how often each runs.

The mix is 45/43/4/4/4.  New-Order's rollbacks (1 %) and the choice by last name (60 %) are
scripts of their own with the weight they ought to have: the draw is the same, and pgbench's
log, which knows nothing but script numbers, then counts them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One pgbench script: which transaction it is, and its share in ten thousand."""

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

TRANSACTIONS = tuple(dict.fromkeys(script.transaction for script in SCRIPTS))


def script_number(name: str) -> int:
    """Return pgbench's number of a script."""
    return next(number for number, script in enumerate(SCRIPTS) if script.name == name)
