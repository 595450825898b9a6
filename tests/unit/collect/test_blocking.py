# SPDX-License-Identifier: PostgreSQL
"""Blocked sessions are listed in an order that a reader can follow, for any pattern of locks."""

import pytest

from pgflash.collect.blocking import Blockers, tree


@pytest.mark.parametrize(
    ("blockers", "told"),
    [
        ({}, []),
        ({2: (1,)}, [(1, 0), (2, 1)]),
        # Two wait for one, and one more for the second of them.
        ({2: (1,), 3: (1,), 4: (3,)}, [(1, 0), (2, 1), (3, 1), (4, 2)]),
        # A session that waits for two is listed once, below the first of them.
        ({3: (1, 2)}, [(1, 0), (3, 1), (2, 0)]),
        # A deadlock that is not found yet.
        ({1: (2,), 2: (1,)}, [(1, 0), (2, 1)]),
        ({1: (1,)}, [(1, 0)]),
        # 0 stands for prepared transactions.
        ({5: (0,)}, [(0, 0), (5, 1)]),
    ],
)
def test_a_waiter_stands_below_one_that_blocks_it(
    blockers: Blockers, told: list[tuple[int, int]]
) -> None:
    assert list(tree(blockers)) == told


def test_a_long_queue_is_told_to_a_depth_and_the_rest_starts_over() -> None:
    queue = {pid + 1: (pid,) for pid in range(1, 51)}
    told = dict(tree(queue))
    assert set(told) == set(range(1, 52))
    assert max(told.values()) == 10
