# SPDX-License-Identifier: PostgreSQL
"""How a standby gets warm: carry() once, or a Carrier every so many seconds.

The list of the leader's cached blocks is in a table of a database of its own, which replication
carries, and each standby loads it: the two jobs of docs/guide/fleet.md.  Nothing else of the lab
knows how a standby is kept warm.
"""

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg

from pgflash.machine.processes import Process
from pgflash.machine.tree import HERE
from pgflash_lab.patroni import PatroniMember, wait_for
from pgflash_lab.workload import MeasureError

#: The database of the list.
LIST_DATABASE = "lab_list"

#: Run once in LIST_DATABASE, on the primary.
MAKE_LIST = """
create extension pgflash;
create table primary_cache as select now() as taken_at, l.* from pgflash_cache_list() l;
"""

_TAKE = """
begin;
truncate primary_cache;
insert into primary_cache select now(), l.* from pgflash_cache_list() l;
commit;
"""
_LOAD = "select pgflash_cache_load_list(array_agg(c), max(c.taken_at)) from primary_cache c"
_WARMTH = "select state, coalesce(warmth, 0) from pgflash_cache_warmth"
_WORKERS = "select pid from pg_stat_activity where backend_type = %s"
_LOADER = "pgflash loader"
_NAME = "pgflash lab list"

_WAIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What one list has cost."""

    #: Processor time on the leader, and on all standbys together.
    leader_cpu_s: float
    standby_cpu_s: float
    #: WAL that the leader wrote meanwhile; that of the list alone if nothing else writes.
    wal_bytes: int

    @property
    def cpu_s(self) -> float:
        """Return the processor time on all members."""
        return self.leader_cpu_s + self.standby_cpu_s


def carry(leader: PatroniMember, standbys: Sequence[PatroniMember]) -> Carried:
    """Take the list on the leader, and have the standbys load it; return once they have."""
    with contextlib.closing(_connect(leader)) as connection:
        backend = connection.info.backend_pid
        began_s = _cpu_s(backend)
        before = _lsn(connection, "pg_current_wal_insert_lsn()")
        connection.execute(_TAKE)
        after = _lsn(connection, "pg_current_wal_insert_lsn()")
        leader_cpu_s = _cpu_s(backend) - began_s
    with ThreadPoolExecutor(len(standbys)) as at_once:
        standby_cpu_s = sum(at_once.map(lambda standby: _load(standby, after), standbys))
    return Carried(leader_cpu_s=leader_cpu_s, standby_cpu_s=standby_cpu_s, wal_bytes=after - before)


def warmth(standby: PatroniMember) -> tuple[str, float]:
    """Return the state of a standby's list, and the share of it that is cached there."""
    with contextlib.closing(_connect(standby)) as connection:
        row = connection.execute(_WARMTH).fetchone()
    return ("none", 0.0) if row is None else (str(row[0]), float(row[1]))


class Carrier(threading.Thread):
    """Carries the list at once and then every so many seconds, until it is stopped."""

    def __init__(
        self, leader: PatroniMember, standbys: Sequence[PatroniMember], *, every_s: float
    ) -> None:
        super().__init__(name="pgflash-carrier", daemon=True)
        self._leader = leader
        self._standbys = standbys
        self._every_s = every_s
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        #: Complete once it is stopped.
        self.carried: list[Carried] = []

    def run(self) -> None:
        """Carry the list until stop()."""
        try:
            while not self._stopped.is_set():
                self.carried.append(carry(self._leader, self._standbys))
                self._stopped.wait(self._every_s)
        except BaseException as error:  # raised by stop()
            if not self._stopped.is_set():
                self._error = error

    def stop(self) -> None:
        """Begin no further list, and raise if one could not be carried."""
        self._stopped.set()
        if self._error is not None:
            raise MeasureError(f"a list could not be carried: {self._error}") from self._error


def _load(standby: PatroniMember, lsn: int) -> float:
    """Have a standby load the list once it has it; return the processor time that it took."""
    with contextlib.closing(_connect(standby)) as connection:
        wait_for(
            f"{standby.name} has replayed the list",
            lambda: _lsn(connection, "pg_last_wal_replay_lsn()") >= lsn,
            wait_s=_WAIT_S,
        )
        backend = connection.info.backend_pid
        began_s = _cpu_s(backend)
        connection.execute(_LOAD)
        session_s = _cpu_s(backend) - began_s
        #: By process id: the loader is started for a list, and ends with it.
        loaders: dict[int, float] = {}

        def is_loaded() -> bool:
            for (pid,) in connection.execute(_WORKERS, (_LOADER,)).fetchall():
                with contextlib.suppress(OSError):
                    loaders[pid] = _cpu_s(pid)
            return connection.execute(_WARMTH).fetchall()[0][0] in {"done", "cancelled"}

        wait_for(f"{standby.name} has loaded the list", is_loaded, wait_s=_WAIT_S)
        return session_s + sum(loaders.values())


def _connect(member: PatroniMember) -> psycopg.Connection:
    return psycopg.connect(member.conninfo(LIST_DATABASE), autocommit=True, application_name=_NAME)


def _lsn(connection: psycopg.Connection, function: str) -> int:
    row = connection.execute(f"select pg_wal_lsn_diff({function}, '0/0')".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _cpu_s(pid: int) -> float:
    """Return a process's time on processors: a list takes less than the kernel's usual clock."""
    text = HERE.text(f"/proc/{pid}/schedstat")
    if text:
        return int(text.split()[0]) / 1e9
    stat = Process(pid).stat()
    return stat.user_s + stat.system_s
