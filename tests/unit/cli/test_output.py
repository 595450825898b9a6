# SPDX-License-Identifier: PostgreSQL
"""What the command line prints: tables with each unit beside its column's title."""

import pytest

from pgflash.cli.output import say_table, table_text
from pgflash.model.awr import Unit
from support.reports import MODELLED, SAMPLED, column, table

MEANS = "abcdefghij"
TABLE = table(
    "t",
    [
        column("event"),
        column("time", Unit.SECONDS, MODELLED),
        column("share", Unit.SHARE, SAMPLED),
        *(column(name, Unit.MILLISECONDS) for name in MEANS),
    ],
    ("read", 1250.0, 0.8, *(0.5 for _name in MEANS)),
)


def heads(names: str) -> list[str]:
    return ["event", "time", "s", "share", *(word for name in names for word in (name, "ms"))]


def test_a_table_goes_on_below_where_a_terminal_ends() -> None:
    # "event", "1,250.0" and "80.0 %" take 22 columns of it, each "0.500" takes 7: 8 of them fit.
    first, second = table_text(TABLE, 80).plain.split("\n\n")
    assert first.splitlines()[0].split() == heads(MEANS[:8])
    assert second.splitlines() == ["event   i ms   j ms", "read   0.500  0.500"]


def test_a_table_that_is_piped_is_wider(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(TABLE)
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == heads(MEANS)
    assert row.split() == ["read", "1,250.0", "80.0", "%", *("0.500" for _name in MEANS)]
