# SPDX-License-Identifier: PostgreSQL
"""Assign tests to workers, and order them, if several run at a time (pytest-xdist).

Tests that share a server stay together: a file with module fixtures is one piece of work.  Tests
that make their own servers are independent, so each is a piece, and no long one is left to one
worker while the others are idle.  Files without a server take only moments: they come last and even
out the end.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer  # type: ignore[import-untyped]
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

WITH_SERVERS = ("tests/browser/", "tests/cluster/", "tests/crash/", "tests/hostile/")


class Turns(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out pieces of work in the order of the tests."""

    def __init__(self, config: "pytest.Config", log: "Producer | None" = None) -> None:
        """Keep that order: by default, pieces are ordered by their number of tests."""
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        """Return the piece to which a test belongs."""
        file = nodeid.partition("::")[0]
        return nodeid if makes_its_own(file) else file

    def _reschedule(self, node: "WorkerController") -> None:
        """Give a worker its next piece when it has one test left.

        The worker begins that test only when it knows of another one.  The default is two tests
        left, which is too many at the end, where a test can take half a minute.
        """
        if node.shutting_down:
            return
        if not self.workqueue:
            node.shutdown()
        elif self._pending_of(self.assigned_work[node]) <= 1:
            self._assign_work_unit(node)


@cache
def makes_its_own(file: str) -> bool:
    """Say whether each test of a file makes its own servers."""
    if not file.startswith(("tests/cluster/", "tests/crash/", "tests/hostile/")):
        return False
    return 'scope="module"' not in (Path(__file__).parents[2] / file).read_text()


def turn(nodeid: str) -> int:
    """Return a test's turn: the lower, the earlier."""
    file = nodeid.partition("::")[0]
    if not file.startswith(WITH_SERVERS):
        return 2
    return 1 if makes_its_own(file) else 0
