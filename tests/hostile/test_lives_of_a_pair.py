# SPDX-License-Identifier: PostgreSQL
"""Two servers, each with its cache, lead in turn: cut off, killed, rewound, promoted, under load.

In each round the network between them fails.  The standby is promoted while the old primary still
takes writes that nobody will keep, and caches their blocks.  Then the old primary is killed,
rewound to the new one's history, and follows it, with its own cache file and what its last lives
left there.  What must not happen: a block of the lost history is served, on either of them.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.patience import until
from support.standby import REPLICATION, create_standby, has_replayed
from support.warm import ROWS, SYNCED, assert_true, crash, create_warm, read_table, start_again

ROUNDS = 10
CLIENTS = 3
#: Transactions of the load in each part of a round.
WORK = 300

#: pg_rewind reads the log from before the histories diverge.
KEPT = {**REPLICATION, **SYNCED}


class Load:
    """Sessions that change and read random rows of one server, until it fails or they are ended."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._ended = threading.Event()
        self.done = 0
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}-{number}"),))
            for number in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def goes_on(self) -> None:
        """Wait until more work was done."""
        before = self.done
        until(lambda: self.done >= before + WORK)

    def end(self) -> None:
        """End the sessions."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self, draw: random.Random) -> None:
        with suppress(psycopg.OperationalError), self._server.connect() as session:
            while not self._ended.is_set():
                row, other = draw.randint(1, ROWS), draw.randint(1, ROWS)
                session.execute("update item set v = v + 1 where i = %s", (row,))
                session.execute("select v from item where i between %s and %s", (other, other + 9))
                if draw.random() < 0.01:
                    session.execute("vacuum item")
                with self._lock:
                    self.done += 1


@contextmanager
def load_on(server: Server, seed: int) -> Iterator[Load]:
    load = Load(server, seed)
    try:
        yield load
    finally:
        load.end()


def follow(standby: CachedServer, conninfo: str) -> None:
    standby.server.configure({"primary_conninfo": conninfo})
    with standby.server.connect() as session:
        session.execute("select pg_reload_conf()")


def cut_off(standby: CachedServer, primary: CachedServer) -> None:
    """Have the network between them fail."""
    follow(standby, "host=/nowhere")
    with primary.server.connect() as session:
        until(lambda: session.execute("select from pg_stat_replication").fetchall() == [])


def promote(standby: CachedServer) -> None:
    with standby.server.connect() as session:
        assert session.execute("select pg_promote()").fetchone() == (True,)


def rewind(old: CachedServer, new: CachedServer) -> None:
    """Make a standby of a killed primary."""
    old.server.run(
        [
            *("pg_rewind", "--target-pgdata", old.server.data),
            *("--source-server", new.server.conninfo()),
        ]
    )
    # The configuration files are the new primary's now.
    old.server.configure({"primary_conninfo": new.server.conninfo()})
    (old.server.data / "standby.signal").touch()
    start_again(old)


def one_round(old: CachedServer, new: CachedServer, seed: int) -> None:
    """Let the standby NEW take over from OLD, which then follows it."""
    with load_on(old.server, seed) as lost, load_on_promoted(old, new, lost, seed) as kept:
        kept.goes_on()
        lost.goes_on()  # both take writes
        crash(old)
        kept.goes_on()
        rewind(old, new)
        kept.goes_on()  # the rewound one replays under load
    until(lambda: has_replayed(new.server, old.server))


@contextmanager
def load_on_promoted(old: CachedServer, new: CachedServer, lost: Load, seed: int) -> Iterator[Load]:
    """Cut off the standby under load, promote it, and put a load on it, too."""
    lost.goes_on()
    cut_off(new, old)
    lost.goes_on()  # nobody will keep this
    promote(new)
    with load_on(new.server, seed + 1) as load:
        yield load


def create_pair(cluster: ClusterFactory, install: PgInstall) -> tuple[CachedServer, CachedServer]:
    first = create_warm(cluster, install, settings=KEPT)
    second = create_standby(cluster, first.server, settings=KEPT)
    until(lambda: has_replayed(first.server, second.server))
    return first, second


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_servers_that_fail_in_turn_serve_no_block_of_a_lost_history(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    pair = create_pair(cluster, pgflash_install)
    for number in range(ROUNDS):
        one_round(pair[number % 2], pair[1 - number % 2], seed=2 * number)
        # From disk, then from flash; the two servers read it from different caches.
        for _ in range(2):
            seen = {read_table(one).digest for one in pair}
            assert len(seen) == 1, f"round {number}: the servers differ"
        for one in pair:
            assert_true(one)
            assert one.view()["verify_compared"] > 0


@pytest.mark.soak
def test_control_the_load_finds_a_cache_that_forgets_writes(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    """What a rewound server relies on has two safeguards; each has its control elsewhere."""
    with pytest.raises(AssertionError, match="stale blocks were served"):
        one_round(*create_pair(cluster, broken_install("WRITE")), seed=0)
