# SPDX-License-Identifier: PostgreSQL
"""Which tests go to which worker, in which order, where several run at a time (pytest-xdist).

What shares a server stays together: a file with fixtures of its module is one piece of work.
Tests that make their own servers do not need one another, so each is a piece, and of those
that take long none is left to one worker while the others have nothing to do.  Files without
a server are done in moments: they come last and even out the end.
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
        """Keep to that order: the default is by how many tests a piece has."""
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        """Return the piece that a test is part of."""
        file = nodeid.partition("::")[0]
        return nodeid if makes_its_own(file) else file

    def _reschedule(self, node: "WorkerController") -> None:
        """Give a worker its next piece when it has one test left.

        That one it begins when it knows of another.  The default is two left, which are too
        many at the end, where a test can take half a minute.
        """
        if node.shutting_down:
            return
        if not self.workqueue:
            node.shutdown()
        elif self._pending_of(self.assigned_work[node]) <= 1:
            self._assign_work_unit(node)


@cache
def makes_its_own(file: str) -> bool:
    """Say whether each test of a file makes the servers that it needs."""
    if not file.startswith(("tests/cluster/", "tests/crash/", "tests/hostile/")):
        return False
    return 'scope="module"' not in (Path(__file__).parents[2] / file).read_text()


def turn(nodeid: str) -> int:
    """Say when a test has its turn: the lower, the earlier."""
    file = nodeid.partition("::")[0]
    if not file.startswith(WITH_SERVERS):
        return 2
    return 1 if makes_its_own(file) else 0
