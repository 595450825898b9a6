# SPDX-License-Identifier: PostgreSQL
"""Which of an attempt and its repetition counts."""

import dataclasses

from pgflash_lab.model.run import Attempt
from pgflash_lab.run import supersede
from support.runs import ALL, BASELINE, attempt


def with_foreign(one: Attempt, *, foreign_s: float) -> Attempt:
    return dataclasses.replace(one, cpu=dataclasses.replace(one.cpu, foreign_s=foreign_s))


def test_a_quieter_repetition_replaces_its_attempt() -> None:
    first = with_foreign(attempt(BASELINE, tpm=100, polluted="x"), foreign_s=20)
    other = attempt(ALL, tpm=900)
    again = with_foreign(attempt(BASELINE, tpm=200), foreign_s=1)
    marked = supersede((first, other, again))
    assert [one.superseded for one in marked] == [True, False, False]


def test_a_noisier_repetition_is_put_aside_itself() -> None:
    first = with_foreign(attempt(BASELINE, tpm=100, polluted="x"), foreign_s=5)
    again = with_foreign(attempt(BASELINE, tpm=50, polluted="x"), foreign_s=30)
    assert [one.superseded for one in supersede((first, again))] == [False, True]


def test_another_repeat_of_the_approach_is_left_alone() -> None:
    first = with_foreign(attempt(BASELINE, tpm=100, repeat=1), foreign_s=20)
    second = with_foreign(attempt(BASELINE, tpm=110, repeat=2), foreign_s=1)
    assert not any(one.superseded for one in supersede((first, second)))
