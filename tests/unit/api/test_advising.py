# SPDX-License-Identifier: PostgreSQL
"""Advice on a report alone: what the report says of the server is known, too."""

import pytest

from pgflash.advise.approaches import Situation
from pgflash.api import advise, file_situation
from pgflash.model.advice import Advice, ApproachAdvice
from support.few import few

GB = 2.0**30


def cache_of(advice: Advice) -> ApproachAdvice | None:
    """Return what is said of a flash cache."""
    return next((way for way in advice.approaches if way.name == "flash-cache"), None)


def test_a_stored_report_says_that_there_is_a_cache() -> None:
    # Half of the reads are served at 1 GB; 2 GB would serve 0.8: 0.6 of those that are left.
    curve = ((0.5 * GB, 0.3), (1 * GB, 0.5), (2 * GB, 0.8), (4 * GB, 0.81))
    report = few(flash_reads=(20_000, 4.0), curve=curve, cache=(1 * GB, 0.5))
    larger = cache_of(advise(report, file_situation()))
    assert larger is not None
    assert larger.title == "Larger flash cache"
    assert larger.hit_ratio == pytest.approx(0.6)


def test_a_cache_without_a_curve_is_not_offered_again() -> None:
    report = few(flash_reads=(20_000, 4.0), cache=(1 * GB, 0.5))
    assert cache_of(advise(report, file_situation(database_bytes=int(10 * GB)))) is None


def test_reads_of_a_tablespace_on_flash_are_no_cache() -> None:
    report = few(spaces=(("pg_default", 10_000.0, 19.0), ("fast", 10_000.0, 1.0)))
    known = Situation(database_bytes=10 * GB, flash_tablespaces=frozenset({"fast"}))
    new = cache_of(advise(report, known))
    assert new is not None
    assert new.title == "Flash cache"
