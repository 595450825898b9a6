# SPDX-License-Identifier: PostgreSQL
"""The terminal's scripts and how often each runs.

The standard mix is 45/43/4/4/4.  New-Order's rollbacks (1 %) and the choice by last name (60 %) are
scripts of their own, with their weights: the draw is the same, and pgbench's log, which records
only script numbers, then counts them.

If clients pause, every other run of a script is a pause: it sleeps for the keying and think time of
its own transaction and does nothing else.  Pauses therefore have the specification's distribution,
but do not depend on the transaction before.  The log tells them apart by their order, and response
times are without them.
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

#: Seconds of each transaction: for keying, and the mean of those for thinking, which are drawn from
#: a negative exponential distribution and are at most ten times the mean (clause 5.2.5).
_KEYING_S = {"new_order": 18, "payment": 3, "order_status": 2, "delivery": 2, "stock_level": 2}
_THINK_S = {"new_order": 12, "payment": 12, "order_status": 10, "delivery": 5, "stock_level": 5}

#: Its variables are think_factor; resting, which is 2 before a client's first pause, then 1 or 0;
#: and ends_s, the time until which a pause may last, since a sleeping client delays the run's end.
_PAUSE = r"""\if :resting
\set think_s least({most_s}, -{think_s} * ln(random(1, 1000000) / 1000000.0))
\set pause_ms int(1000 * :think_factor * ({keying_s} + :think_s))
\if :resting > 1
\set pause_ms :pause_ms * random(0, 1000) / 1000
\endif
SELECT greatest(0, least(:pause_ms::integer, 1000 * (:ends_s::float8
       - extract(epoch FROM clock_timestamp()))))::integer AS pause_ms \gset
\sleep :pause_ms ms
\set resting 0
\else
{transaction}
\set resting 1
\endif
"""

TRANSACTIONS = tuple(dict.fromkeys(script.transaction for script in SCRIPTS))


def weight_of(script: Script, mix: Mix) -> int:
    """Return a script's share of a mix, in ten thousand."""
    return script.weight if mix is Mix.STANDARD else _READ_MOSTLY[script.name]


def with_pauses(script: Script, text: str) -> str:
    """Return a script's text so that every other run of it is a pause."""
    think_s = _THINK_S[script.transaction]
    return _PAUSE.format(
        keying_s=_KEYING_S[script.transaction],
        think_s=think_s,
        most_s=10.0 * think_s,
        transaction=text.strip(),
    )


def script_number(name: str) -> int:
    """Return pgbench's number of a script."""
    return next(number for number, script in enumerate(SCRIPTS) if script.name == name)
