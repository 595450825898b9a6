# SPDX-License-Identifier: PostgreSQL
"""Names that were cut are completed, and printed numbers are read with their units."""

import pytest

from pgflash.advise.awr_events import number, read_events, seconds_column, whole_name
from pgflash.advise.awr_tables import AwrTable


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("14,404,027", 14_404_027.0),
        ("238.5K", 238_500.0),
        (".6", 0.6),
        ("1.E+03", 1_000.0),
        ("9.2233720368547758E+18", 9.2233720368547758e18),
        ("13.61ms", 0.01361),
        ("109.72us", 109.72e-6),
        ("20ns", 20e-9),
        ("1.2T", 1.2e12),
        ("########", None),
        ("", None),
        ("2-way", None),
    ],
)
def test_a_printed_number_is_read(printed: str, value: float | None) -> None:
    assert number(printed) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("cut", "whole", "others"),
    [
        ("db flash cache single block ph", "db flash cache single block physical read", False),
        ("db flash cache single bloc", "db flash cache single block physical read", False),
        (
            "db flash cache single block phys read",
            "db flash cache single block physical read",
            False,
        ),
        ("cell single block physical rea", "cell single block physical read", True),
        ("cell list of blocks physic", "cell list of blocks physical read", True),
        ("direct path read temp", "direct path read temp", False),
        ("direct path read", "direct path read", False),
        ("read by other session", "read by other session", False),
        ("enq: TX - row lock contenti", "enq: TX - row lock contenti", False),
        ("cpu time", "db cpu", False),
    ],
)
def test_a_name_that_was_cut_is_completed(cut: str, whole: str, others: bool) -> None:
    assert whole_name(cut) == (whole, others)


@pytest.mark.parametrize(
    ("head", "is_time"),
    [
        ("Total Wait Time (sec)", True),
        ("Total Wait Time (s)", True),
        ("Time(s)", True),
        ("Time (s)", True),
        ("Tota Time", True),
        ("Total Waits", False),
        ("% DB time", False),
        ("%Time -outs", False),
        ("Avg wait (ms)", False),
        ("Waits 64ms to 2s", False),
    ],
)
def test_only_a_column_of_seconds_is_one(head: str, is_time: bool) -> None:
    table = AwrTable(heads=("Event", "Waits", head), rows=(("x", "1", "2"),))
    assert (seconds_column(table) == 2) is is_time


def test_a_time_that_is_rounded_to_nothing_follows_from_its_average() -> None:
    table = AwrTable(
        heads=("Event", "Waits", "Total Wait Time (s)", "Avg wait (ms)"),
        rows=(("log file sync", "20", "0", "21"),),
    )
    units = AwrTable(
        heads=("Event", "Waits", "Total Wait Time (s)", "Avg wait"),
        rows=(("log file sync", "20", "0", "21.00ms"),),
    )
    for one in (table, units):
        assert read_events([one]).events["log file sync"].seconds == pytest.approx(0.42)
