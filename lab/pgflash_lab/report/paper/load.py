# SPDX-License-Identifier: PostgreSQL
"""Peaks and means of an attempt, as papers print them.

They are measured in different places: a database's throughput (data, calls) is what PostgreSQL's
processes read and wrote in data files and WAL, second by second in the server's own report, without
the archiver's copies; a server's (server) is counted by the devices, including the copies, and so
is the throughput of scans: a session reports its reads only when its statement ends, all at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pgflash.model.awr import AwrReport, Cell
from pgflash_lab.model.formula import Value
from pgflash_lab.model.run import Attempt
from pgflash_lab.report.paper import parts

_BLOCK_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """What was done in an interval."""

    elapsed_s: float
    size_bytes: float
    calls: float

    def __add__(self, other: "_Span") -> "_Span":
        return _Span(
            elapsed_s=self.elapsed_s + other.elapsed_s,
            size_bytes=self.size_bytes + other.size_bytes,
            calls=self.calls + other.calls,
        )


_NOTHING = _Span(elapsed_s=0.0, size_bytes=0.0, calls=0.0)


def _by_server(report: AwrReport | None) -> list[_Span]:
    """Return bytes (of data files and WAL) and calls (of data files) over time.

    Work of a fixed amount may end just after a snapshot.  Backends report their counts about once a
    second, so the rates of an interval that short are chance: it is added to the one before.
    """
    table = parts.table_of(report, "throughput-over-time")
    if table is None:
        return []
    elapsed_s = table.values("elapsed_s")
    reads = [
        table.values(column.name)
        for column in table.columns
        if column.name.endswith("_reads_per_s")
    ]
    writes = table.values("writes_per_s")
    logged = table.values("wal_bytes_per_s")
    spans: list[_Span] = []
    for place in range(len(table.rows)):
        cells = [*(column[place] for column in reads), writes[place]]
        done = sum(_float(cell) for cell in cells)
        blocks = _float(table.values("blocks_read_per_s")[place]) + _float(writes[place])
        for_s = _float(elapsed_s[place])
        size = _BLOCK_BYTES * blocks + _float(logged[place])
        spans.append(_Span(elapsed_s=for_s, size_bytes=size * for_s, calls=done * for_s))
    if len(spans) > 1 and spans[-1].elapsed_s < spans[-2].elapsed_s / 2:
        spans[-2:] = [spans[-2] + spans[-1]]
    return spans


def _by_devices(attempt: Attempt) -> list[_Span]:
    """Return requests and bytes of all devices together, over time."""
    spans: dict[float, _Span] = {}
    for one in attempt.disk_seconds:
        before = spans.get(one.at_s, _NOTHING)
        spans[one.at_s] = _Span(
            elapsed_s=one.elapsed_s,
            size_bytes=before.size_bytes + one.read_bytes + one.write_bytes,
            calls=before.calls + one.reads + one.writes,
        )
    return list(spans.values())


def _sizes_peak(spans: Sequence[_Span]) -> float | None:
    return _peak([one.size_bytes / one.elapsed_s for one in spans if one.elapsed_s > 0])


def _calls_peak(spans: Sequence[_Span]) -> float | None:
    return _peak([one.calls / one.elapsed_s for one in spans if one.elapsed_s > 0])


def _sizes_mean(spans: Sequence[_Span]) -> float | None:
    whole = sum(spans, _NOTHING)
    return whole.size_bytes / whole.elapsed_s if whole.elapsed_s > 0 else None


def _calls_mean(spans: Sequence[_Span]) -> float | None:
    whole = sum(spans, _NOTHING)
    return whole.calls / whole.elapsed_s if whole.elapsed_s > 0 else None


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
    "bytes_peak": lambda _, report: _sizes_peak(_by_server(report)),
    "bytes_mean": lambda _, report: _sizes_mean(_by_server(report)),
    "calls_peak": lambda _, report: _calls_peak(_by_server(report)),
    "calls_mean": lambda _, report: _calls_mean(_by_server(report)),
    "server_calls_peak": lambda attempt, _: _calls_peak(_by_devices(attempt)),
    "server_calls_mean": lambda attempt, _: _calls_mean(_by_devices(attempt)),
    "server_bytes_peak": lambda attempt, _: _sizes_peak(_by_devices(attempt)),
    "server_bytes_mean": lambda attempt, _: _sizes_mean(_by_devices(attempt)),
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
