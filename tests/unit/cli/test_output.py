# SPDX-License-Identifier: PostgreSQL
"""What the command line prints: tables with each unit beside its column's title."""

import math

import pytest

from pgflash.cli.output import print_json, say_beside, say_table, table_text
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


def test_what_json_has_no_number_for_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            print_json({"number": number})
    assert capsys.readouterr().out == ""


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


@pytest.mark.parametrize(("columns", "lines"), [(80, 2), (160, 1)])
def test_a_path_is_whole_and_what_is_said_of_it_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, lines: int
) -> None:
    path = "/nvme/of_the_database/moves_of_the_year/20261123-184828-table.json"
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, to rich
    monkeypatch.setenv("COLUMNS", str(columns))
    say_beside(path, "2026-11-23 18:48:28 UTC  1 move, done")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == lines
    assert printed[0].startswith(path)
    assert max(len(line) for line in printed) <= columns
