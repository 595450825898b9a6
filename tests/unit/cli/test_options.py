# SPDX-License-Identifier: PostgreSQL
"""Options of several commands."""

import pytest

from pgflash.cli import main


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    "words",
    [
        ["advise", "report.json", "--users"],
        ["advise", "report.json", "--cores"],
        ["top", "--every"],
        ["devices", "probe", ".", "--seconds"],
        ["place", "table", "stock", "--on", "fast", "--patience"],
    ],
)
def test_an_option_is_no_number_that_is_none(
    words: list[str], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, number]) == 2
    said = capsys.readouterr().err
    assert f"'{number}' is not a finite number" in said or f"{number} is not in the range" in said
