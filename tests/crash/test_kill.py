# SPDX-License-Identifier: PostgreSQL
"""kill -9 at any moment under load leaves nothing stale behind.

A round: TPC-B runs, with tables that come and go beside it; after some progress a process of the
server is killed; then sums, indexes and every cached block are checked. The postmaster answers the
death of a child by killing all others and starting over; its own death ends everything and the test
starts the server again.
"""

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, assert_indexes_whole, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.patience import eventually
from support.tpcb import assert_balanced, count_history, end_load, load_tpcb, start_tpcb

ROUNDS = 5
ROUNDS_OF_OTHER_MAJORS = 2
SOAK_ROUNDS = int(os.environ.get("SOAK_ROUNDS") or 50)
SEED = int(os.environ.get("SEED") or 1)

#: Transactions before each kill.
PROGRESS = 150

Kill = Callable[[CachedServer, random.Random], None]


def kill_one_of(pids_now: Callable[[], list[int]], choice: random.Random) -> None:
    """Kill one of these processes, which come and go."""

    def killed() -> bool:
        with suppress(ProcessLookupError, IndexError):
            os.kill(choice.choice(pids_now()), signal.SIGKILL)
            return True
        return False

    assert eventually(killed)


def kill_backend(cached: CachedServer, choice: random.Random) -> None:
    """Kill a process that serves a client."""
    kill_one_of(cached.server.backend_pids, choice)


def kill_any_child(cached: CachedServer, choice: random.Random) -> None:
    """Kill any child: a backend, the checkpointer, the cache's own worker."""
    kill_one_of(cached.server.child_pids, choice)


def kill_postmaster(cached: CachedServer, choice: random.Random) -> None:
    """Kill the postmaster, and start the server again."""
    cached.server.kill_postmaster()
    cached.start()


def serves(cached: CachedServer) -> bool:
    """Say whether the server takes connections and its cache serves."""
    try:
        return bool(cached.view()["mode"] == "serve")
    except psycopg.OperationalError:
        return False


def kill_and_check(
    cluster: ClusterFactory, install: PgInstall, *, rounds: int, kills: tuple[Kill, ...]
) -> None:
    """Kill in turn, so many times, and look for damage after each."""
    cached = create_cached(
        cluster, install, settings={"shared_buffers": "2MB", "restart_after_crash": "on"}
    )
    load_tpcb(cached.server)
    compared = 0
    for number in range(rounds):
        choice = random.Random(SEED * 1000 + number)
        target = count_history(cached.server) + PROGRESS + choice.randrange(PROGRESS)
        load = start_tpcb(cached.server)
        try:
            assert eventually(lambda: count_history(cached.server) >= target)  # noqa: B023
            compared += cached.assert_serving()["verify_compared"]
            kills[number % len(kills)](cached, choice)
        finally:
            end_load(load)
        assert eventually(lambda: serves(cached)), cached.server.log_text()[-2000:]
        assert_balanced(cached.server)
        assert_indexes_whole(cached.server)
        view = cached.assert_serving()
        _, mismatched = cached.verify()
        assert mismatched == 0
        compared += view["verify_compared"]
    assert_never_stale(
        cached,
        compared_min=rounds * 1000,
        compared_before=compared,
        go_on=lambda: assert_balanced(cached.server),
    )


def test_killing_children_leaves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    kill_and_check(cluster, pgflash_install, rounds=ROUNDS, kills=(kill_backend, kill_any_child))


@pytest.mark.extension
def test_killing_the_postmaster_leaves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    rounds = ROUNDS if pgflash_install.major == 18 else ROUNDS_OF_OTHER_MAJORS
    kill_and_check(cluster, pgflash_install, rounds=rounds, kills=(kill_postmaster,))


@pytest.mark.soak
def test_killing_for_hours_leaves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    kill_and_check(
        cluster,
        pgflash_install,
        rounds=SOAK_ROUNDS,
        kills=(kill_backend, kill_postmaster, kill_any_child),
    )
