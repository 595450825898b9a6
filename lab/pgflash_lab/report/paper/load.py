# SPDX-License-Identifier: PostgreSQL
"""Peaks and means of an attempt, as papers print them.

They are measured in different places: a database's throughput (data, calls) is what PostgreSQL's
processes read and wrote in data files and WAL, second by second in the server's own report, without
the archiver's copies; a server's (server) is counted by the devices, including the copies, and so
is the throughput of scans: a session reports its reads only when its statement ends, all at once.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pgflash.model.awr import AwrReport, Cell
from pgflash_lab.model.formula import Value
from pgflash_lab.model.run import Attempt
from pgflash_lab.report.paper import parts

_BLOCK_BYTES = 8192


def _by_server(report: AwrReport | None) -> tuple[list[float], list[float]]:
    """Return bytes (of data files and WAL) and calls (of data files) a second, over time."""
    table = parts.table_of(report, "throughput-over-time")
    if table is None:
        return [], []
    reads = [
        table.values(column.name)
        for column in table.columns
        if column.name.endswith("_reads_per_s")
    ]
    writes = table.values("writes_per_s")
    logged = table.values("wal_bytes_per_s")
    sizes, calls = [], []
    for place in range(len(table.rows)):
        cells = [*(column[place] for column in reads), writes[place]]
        done = sum(_float(cell) for cell in cells)
        blocks = _float(table.values("blocks_read_per_s")[place]) + _float(writes[place])
        calls.append(done)
        sizes.append(_BLOCK_BYTES * blocks + _float(logged[place]))
    return sizes, calls


def _by_devices(attempt: Attempt) -> tuple[list[float], list[float]]:
    """Return requests and bytes a second of all devices together, over time."""
    requests: dict[float, float] = {}
    transferred: dict[float, float] = {}
    for one in attempt.disk_seconds:
        if one.elapsed_s > 0:
            calls = (one.reads + one.writes) / one.elapsed_s
            size = (one.read_bytes + one.write_bytes) / one.elapsed_s
            requests[one.at_s] = requests.get(one.at_s, 0.0) + calls
            transferred[one.at_s] = transferred.get(one.at_s, 0.0) + size
    return list(requests.values()), list(transferred.values())


def _waiting(attempt: Attempt) -> list[float]:
    """Return the share of the processors that was idle because a process waited for I/O.

    The kernel counts this itself, except for emulated devices, where a wait is a plain sleep.  For
    these, each waiting session is taken to keep one processor waiting at most, and no more than are
    idle.
    """
    if not _is_modelled(attempt):
        return [second.iowait for second in attempt.cpu_seconds]
    found = []
    for host in attempt.host_seconds:
        cpu = min(
            attempt.cpu_seconds, key=lambda second: abs(second.at_s - host.at_s), default=None
        )
        if cpu is not None:
            found.append(min(cpu.idle + cpu.iowait, host.blocked / attempt.cpu.cores))
    return found


def _is_modelled(attempt: Attempt) -> bool:
    return any(one.blocked_from == "sessions" for one in attempt.host_seconds)


def _busy(attempt: Attempt) -> list[float]:
    return [second.user + second.system for second in attempt.cpu_seconds]


def _of_machine(attempt: Attempt, used_s: float) -> float | None:
    capacity_s = attempt.cpu.cores * attempt.cpu.elapsed_s
    return used_s / capacity_s if capacity_s > 0 else None


def _archiver_wait(attempt: Attempt) -> float | None:
    """Return the share of the clients' time spent waiting for the archiver."""
    behind_s = attempt.facts.get("archiver_wait_s")
    clients_s = attempt.clients * (attempt.duration_s or attempt.measured_s)
    return behind_s / clients_s if behind_s is not None and clients_s else None


def _time_of_day(attempt: Attempt, *, after_s: float = 0.0) -> str:
    began = datetime.fromisoformat(attempt.started_at)
    return (began + timedelta(seconds=after_s)).strftime("%H:%M:%S")


def _float(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _peak(values: Sequence[float]) -> float | None:
    return max(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


FIGURES: dict[str, Callable[[Attempt, AwrReport | None], Value]] = {
    "began": lambda attempt, _: _time_of_day(attempt),
    "ended": lambda attempt, _: _time_of_day(
        attempt, after_s=attempt.duration_s or attempt.measured_s
    ),
    "bytes_peak": lambda _, report: _peak(_by_server(report)[0]),
    "bytes_mean": lambda _, report: _mean(_by_server(report)[0]),
    "calls_peak": lambda _, report: _peak(_by_server(report)[1]),
    "calls_mean": lambda _, report: _mean(_by_server(report)[1]),
    "server_calls_peak": lambda attempt, _: _peak(_by_devices(attempt)[0]),
    "server_calls_mean": lambda attempt, _: _mean(_by_devices(attempt)[0]),
    "server_bytes_peak": lambda attempt, _: _peak(_by_devices(attempt)[1]),
    "server_bytes_mean": lambda attempt, _: _mean(_by_devices(attempt)[1]),
    # The peak is of all programs, the mean of the server and its load.
    "cpu_peak": lambda attempt, _: _peak(_busy(attempt)),
    "cpu_mean": lambda attempt, _: _of_machine(
        attempt, attempt.cpu.server_s + attempt.cpu.driver_s
    ),
    "driver": lambda attempt, _: _of_machine(attempt, attempt.cpu.driver_s),
    "iowait_peak": lambda attempt, _: _peak(_waiting(attempt)),
    "iowait_mean": lambda attempt, _: _mean(_waiting(attempt)),
    "iowait_modelled": lambda attempt, _: _is_modelled(attempt),
    "archiver_wait": lambda attempt, _: _archiver_wait(attempt),
}
