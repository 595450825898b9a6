# SPDX-License-Identifier: PostgreSQL
"""The rows of a section that has a snapshot's largest differences, and the sum of the others."""

from pgflash.collect.take import _delta_rows
from pgflash.model.collected import Counted, Rows
from pgflash.model.snapshot_sections import SECTIONS


def test_what_ran_inside_other_statements_has_a_sum_of_its_own() -> None:
    chosen: Rows = {(5, 10, 77, 1): Counted(values=(9.0, 90.0))}
    others: Rows = {
        (5, 10, 78, 1): Counted(values=(1.0, 10.0)),
        (5, 10, 79, 1): Counted(values=(2.0, 20.0)),
        (5, 10, 80, 0): Counted(values=(3.0, 30.5)),
    }
    rows = list(_delta_rows(SECTIONS["statements"], chosen, others, 2))
    assert rows == [
        (5, 10, 77, 1, 9, 90),
        (None, None, None, 1, 3, 30),
        (None, None, None, 0, 3, 30.5),
    ]


def test_the_sum_of_the_others_is_there_without_any() -> None:
    assert list(_delta_rows(SECTIONS["statements"], {}, {}, 2)) == [(None, None, None, 1, 0, 0)]
    (rest,) = _delta_rows(SECTIONS["relation_stats"], {}, {}, 1)
    assert rest == (None, None, "other", None, 0)
