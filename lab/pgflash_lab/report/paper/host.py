# SPDX-License-Identifier: PostgreSQL
"""Devices and host second by second in an attempt, as iostat and vmstat show them.

Attempts look about once a second, each at its own moments; for a chart, their values are averaged
over equal spans, so that several attempts share one axis.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from pgflash.model.awr import Cell, Column, ReportTable, Row, Source, Unit
from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.sizes import MB
from pgflash_lab.model.run import Attempt, DiskSecond, HostSecond

#: As many rows as the papers print.
_VMSTAT_ROWS = 15
#: Points of a chart, about.
_POINTS = 60
_SPAN_MIN_S = 2.0


def vmstat_table(attempt: Attempt | None, *, rows: int = _VMSTAT_ROWS) -> ReportTable | None:
    """Return the host's seconds in vmstat's columns; None without any."""
    if attempt is None or not attempt.host_seconds:
        return None
    step = max(1, math.ceil(len(attempt.host_seconds) / rows))
    seconds = attempt.host_seconds[::step]
    return ReportTable(
        id="vmstat",
        title="The host, every so often a second",
        columns=(
            _column("at_s", "Second", Unit.COUNT),
            _column("r", "r", Unit.COUNT),
            _column("b", "b", Unit.COUNT),
            *(_column(name, name, Unit.BYTES) for name in ("swpd", "free", "buff", "cache")),
            *(_column(name, name, Unit.BYTES_PER_SECOND) for name in ("si", "so")),
            _column("bi", "bi", Unit.BYTES_PER_SECOND),
            _column("bo", "bo", Unit.BYTES_PER_SECOND),
            _column("in", "in", Unit.PER_SECOND),
            _column("cs", "cs", Unit.PER_SECOND),
            *(_column(name, name, Unit.SHARE) for name in ("us", "sy", "id", "wa", "st")),
        ),
        rows=tuple(Row(cells=_vmstat_cells(attempt, one)) for one in seconds),
        key=("at_s",),
        note=_BLOCKED.get(seconds[0].blocked_from, ""),
    )


_BLOCKED = {
    "sessions": "A process that waits for an emulated device sleeps, which the kernel calls "
    "neither blocked nor I/O wait: b is server processes in a wait for I/O, and their time is in "
    "id. bi and bo are those of the emulated devices.",
    "kernel": "b is processes in uninterruptible sleep, as vmstat has it.",
}


def _vmstat_cells(attempt: Attempt, one: HostSecond) -> tuple[Cell, ...]:
    cpu = min(attempt.cpu_seconds, key=lambda cpu: abs(cpu.at_s - one.at_s), default=None)
    return (
        round(one.at_s),
        one.runnable,
        one.blocked,
        one.swapped_bytes,
        one.free_bytes,
        one.buffers_bytes,
        one.cache_bytes,
        one.swap_in_bytes_per_s,
        one.swap_out_bytes_per_s,
        one.in_bytes_per_s,
        one.out_bytes_per_s,
        one.interrupts_per_s,
        one.context_switches_per_s,
        *(
            (cpu.user, cpu.system - cpu.steal, cpu.idle, cpu.iowait, cpu.steal)
            if cpu
            else (None,) * 5
        ),
    )


def iostat_table(attempt: Attempt | None) -> ReportTable | None:
    """Return each device's means over the attempt in iostat's columns; None without any."""
    if attempt is None or not attempt.disk_seconds:
        return None
    roles = dict.fromkeys(one.role for one in attempt.disk_seconds)
    return ReportTable(
        id="iostat",
        title="The devices, on average",
        columns=(
            Column(name="device", title="Device", unit=Unit.TEXT),
            _column("r_per_s", "r/s", Unit.PER_SECOND),
            _column("w_per_s", "w/s", Unit.PER_SECOND),
            _column("r_bytes_per_s", "read", Unit.BYTES_PER_SECOND),
            _column("w_bytes_per_s", "written", Unit.BYTES_PER_SECOND),
            _column("queue", "avg. queue", Unit.RATIO, Source.MODELLED),
            _column("await_ms", "await", Unit.MILLISECONDS),
            _column("r_await_ms", "r await", Unit.MILLISECONDS),
            _column("w_await_ms", "w await", Unit.MILLISECONDS),
            _column("util", "%util", Unit.SHARE),
        ),
        rows=tuple(Row(cells=_iostat_cells(attempt, role)) for role in roles),
        key=("device",),
        note="The queue is requests a second times their time.",
    )


def _iostat_cells(attempt: Attempt, role: str) -> tuple[Cell, ...]:
    reads = device_rate(attempt, role, lambda one: one.reads) or 0.0
    writes = device_rate(attempt, role, lambda one: one.writes) or 0.0
    wait_ms = await_ms(attempt, role)
    return (
        role,
        reads,
        writes,
        device_rate(attempt, role, lambda one: one.read_bytes),
        device_rate(attempt, role, lambda one: one.write_bytes),
        (reads + writes) * wait_ms / 1000 if wait_ms is not None else None,
        wait_ms,
        read_await_ms(attempt, role),
        write_await_ms(attempt, role),
        busy(attempt, role),
    )


def device_rate(
    attempt: Attempt | None, role: str, count: Callable[[DiskSecond], float]
) -> float | None:
    """Return how much a device did per second of the attempt; None if nobody looked."""
    mine = [one for one in attempt.disk_seconds if one.role == role] if attempt else []
    elapsed_s = sum(one.elapsed_s for one in mine)
    return sum(count(one) for one in mine) / elapsed_s if elapsed_s > 0 else None


def await_ms(attempt: Attempt | None, role: str) -> float | None:
    """Return the mean time of a device's requests, reads and writes; None without any."""
    return _await_ms([one for one in attempt.disk_seconds if one.role == role] if attempt else [])


def _await_ms(seconds: Sequence[DiskSecond]) -> float | None:
    requests = sum(one.reads + one.writes for one in seconds)
    time_ms = sum(one.reads * one.read_ms + one.writes * one.write_ms for one in seconds)
    return time_ms / requests if requests else None


def read_await_ms(attempt: Attempt | None, role: str) -> float | None:
    """Return the mean time of a device's reads; None without any."""
    mine = [one for one in attempt.disk_seconds if one.role == role] if attempt else []
    return _mean_of(mine, lambda one: one.reads, lambda one: one.read_ms)


def write_await_ms(attempt: Attempt | None, role: str) -> float | None:
    """Return the mean time of a device's writes; None without any."""
    mine = [one for one in attempt.disk_seconds if one.role == role] if attempt else []
    return _mean_of(mine, lambda one: one.writes, lambda one: one.write_ms)


def busy(attempt: Attempt | None, role: str) -> float | None:
    """Return the share of the time in which a device was busy; None if nobody looked.

    From the kernel or, for an emulated device, from its model: spindles and limits.
    """
    mine = [one.utilisation for one in attempt.disk_seconds if one.role == role] if attempt else []
    return statistics.fmean(mine) if mine else None


def line_chart(title: str, unit: str, name: str, points: Sequence[tuple[float, float]]) -> Chart:
    """Return a chart of one line, with the values as they are."""
    at_s, values = zip(*points, strict=True) if points else ((), ())
    last_s = at_s[-1] - at_s[0] if points else 0.0
    return Chart(
        form=ChartForm.LINES,
        title=title,
        unit=unit,
        at_s=at_s,
        every_s=last_s / (len(points) - 1) if len(points) > 1 else 1.0,
        series=(ChartSeries(name=name, values=values),),
    )


def lines_chart(
    title: str,
    unit: str,
    points: Mapping[str, Sequence[tuple[float, float]]],
) -> Chart:
    """Return a chart of lines: for each name, moments in seconds and values."""
    last_s = max((at_s for line in points.values() for at_s, _ in line), default=0.0)
    every_s = max(_SPAN_MIN_S, float(math.ceil(last_s / _POINTS)))
    count = math.floor(last_s / every_s) + 1
    return Chart(
        form=ChartForm.LINES,
        title=title,
        unit=unit,
        at_s=tuple(every_s * place for place in range(count)),
        every_s=every_s,
        series=tuple(
            ChartSeries(name=name, values=_averaged(line, every_s, count))
            for name, line in points.items()
            if line
        ),
    )


def lines_table(table_id: str, chart: Chart, unit: Unit) -> ReportTable:
    """Return the numbers of a chart of lines."""
    return ReportTable(
        id=table_id,
        title=f"{chart.title}, averages over {chart.every_s:g} s",
        columns=(
            _column("at_s", "Second", Unit.COUNT),
            *(
                _column(f"line_{number}", one.name, unit)
                for number, one in enumerate(chart.series, start=1)
            ),
        ),
        rows=tuple(
            Row(cells=(round(at_s), *(one.values[place] for one in chart.series)))
            for place, at_s in enumerate(chart.at_s)
        ),
        key=("at_s",),
    )


def _averaged(
    line: Sequence[tuple[float, float]], every_s: float, count: int
) -> tuple[float | None, ...]:
    spans: list[list[float]] = [[] for _ in range(count)]
    for at_s, value in line:
        spans[max(0, min(count - 1, math.floor(at_s / every_s)))].append(value)
    return tuple(statistics.fmean(values) if values else None for values in spans)


def vmstat_means(attempt: Attempt) -> dict[str, float | None]:
    """Return the means of some of vmstat's columns, in its units; none if nobody looked."""
    seconds, cpu = attempt.host_seconds, attempt.cpu_seconds
    if not seconds:
        return {}
    return {
        "r": statistics.fmean(one.runnable for one in seconds),
        "b": statistics.fmean(one.blocked for one in seconds),
        "cs": statistics.fmean(one.context_switches_per_s for one in seconds),
        "bi": statistics.fmean(one.in_bytes_per_s for one in seconds) / 1024,
        "us": 100 * statistics.fmean(one.user for one in cpu) if cpu else None,
    }


#: If less than this share of the machine was left, the figures mean nothing.
_LEFT_MIN = 0.05


def cpu_shares(attempt: Attempt) -> dict[str, float]:
    """Return how the processors' time was used, as shares of what other programs left.

    A process that waits for an emulated device sleeps, which the kernel counts as idle time and
    not as I/O wait, so "unused" is the sum of both.
    """
    cpu = attempt.cpu
    capacity_s = cpu.cores * cpu.elapsed_s
    left_s = capacity_s - cpu.foreign_s
    if left_s <= _LEFT_MIN * capacity_s:
        return {}
    user, system, driver = (
        min(max(one / left_s, 0.0), 1.0)
        for one in (cpu.server_user_s, cpu.server_system_s, cpu.driver_s)
    )
    unused = max(1 - user - system - driver, 0.0)
    return {"user": user, "system": system, "driver": driver, "unused": unused}


def _seconds_of(
    attempt: Attempt, role: str, value: Callable[[DiskSecond], float | None]
) -> list[tuple[float, float]]:
    found = ((one.at_s, value(one)) for one in attempt.disk_seconds if one.role == role)
    return [(at_s, number) for at_s, number in found if number is not None]


#: What can be drawn over time: values by seconds of an attempt and, but for blocked, of a device.
LINES: dict[str, Callable[[Attempt, str], list[tuple[float, float]]]] = {
    "blocked": lambda attempt, _: [(one.at_s, one.blocked) for one in attempt.host_seconds],
    "reads_per_s": lambda attempt, role: _seconds_of(
        attempt, role, lambda one: one.reads / one.elapsed_s
    ),
    "mb_per_s": lambda attempt, role: _seconds_of(
        attempt,
        role,
        lambda one: (one.read_bytes + one.write_bytes) / max(one.elapsed_s, 1e-9) / MB,
    ),
    "read_ms": lambda attempt, role: _seconds_of(
        attempt, role, lambda one: one.read_ms if one.reads else None
    ),
    "await_ms": lambda attempt, role: _seconds_of(attempt, role, lambda one: _await_ms([one])),
}


def _mean_of(
    seconds: Sequence[DiskSecond],
    count: Callable[[DiskSecond], float],
    mean: Callable[[DiskSecond], float],
) -> float | None:
    requests = sum(count(one) for one in seconds)
    return sum(count(one) * mean(one) for one in seconds) / requests if requests else None


def _column(name: str, title: str, unit: Unit, source: Source = Source.EXACT) -> Column:
    return Column(name=name, title=title, unit=unit, source=source)
