# SPDX-License-Identifier: PostgreSQL
"""The machine: the columns of vmstat and iostat, from /proc, by snapshot interval."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from pgflash.analyze.grid import figure, missing, ratio, text
from pgflash.analyze.period import Interval, Period
from pgflash.analyze.sections import number
from pgflash.analyze.timeline import cpu_shares, iso, steps
from pgflash.model.awr import Cell, Column, ReportTable, Row, RowMark, Unit
from pgflash.model.snapshot import Value

#: Rows of the vmstat table; intervals of a longer period are merged.
VMSTAT_ROWS_MAX = 24
PAGE_BYTES = 4096

_VMSTAT = (
    Column(name="at", title="From", unit=Unit.TIME),
    figure("elapsed_s", "For", Unit.SECONDS),
    figure("r", "r", Unit.COUNT, note="Processes running or waiting for a processor."),
    figure("b", "b", Unit.COUNT, note="Processes waiting for a device."),
    figure("swpd", "swpd", Unit.BYTES, note="Swapped out."),
    figure("free", "free", Unit.BYTES, note="Unused memory."),
    figure("buff", "buff", Unit.BYTES, note="Kernel buffers."),
    figure("cache", "cache", Unit.BYTES, note="Page cache."),
    figure("si", "si", Unit.BYTES_PER_SECOND, note="Swapped in."),
    figure("so", "so", Unit.BYTES_PER_SECOND, note="Swapped out."),
    figure("bi", "bi", Unit.BYTES_PER_SECOND, note="Read from block devices."),
    figure("bo", "bo", Unit.BYTES_PER_SECOND, note="Written to block devices."),
    figure("in", "in", Unit.PER_SECOND, note="Interrupts."),
    figure("cs", "cs", Unit.PER_SECOND, note="Context switches."),
    figure("us", "us", Unit.SHARE, note="User."),
    figure("sy", "sy", Unit.SHARE, note="System."),
    figure("id", "id", Unit.SHARE, note="Idle."),
    figure("wa", "wa", Unit.SHARE, note="Waiting for I/O."),
    figure("st", "st", Unit.SHARE, note="Stolen by the hypervisor."),
)


def host_vmstat(period: Period) -> ReportTable:
    """Return the columns of vmstat."""
    title = "Host: vmstat"
    rows = []
    for step in steps(period, most=VMSTAT_ROWS_MAX):
        cells = _vmstat(step, step.elapsed_s, _page_bytes(period))
        if cells is not None:
            state = _state(step.gauge("host_state"))
            at = iso(step.begin.taken_at, period.zone)
            rows.append(Row(cells=(at, step.elapsed_s, *state, *cells)))
    if not rows:
        reason = period.missing_reason("host_cpu") or "Figures of the machine are not available."
        return missing("host-vmstat", title, _VMSTAT, reason)
    cells = _vmstat(period, period.elapsed_s, _page_bytes(period))
    if cells is not None and len(rows) > 1:
        running, blocked, *_memory = _state(period.every_gauge("host_state"))
        state = (running, blocked, None, None, None, None)
        rows.append(Row(cells=(None, period.elapsed_s, *state, *cells), mark=RowMark.TOTAL))
    return ReportTable(
        id="host-vmstat",
        title=title,
        columns=_VMSTAT,
        rows=tuple(rows),
        key=("at",),
        measure="us",
        note="r, b and memory are as of the snapshot at the end of each row; where a row covers "
        "several snapshots, r and b are means.",
    )


def _state(looks: Sequence[Sequence[Mapping[str, Value]]]) -> tuple[Cell, ...]:
    """Return the run queue, on average over these looks, and the memory as of the last."""
    found = [record for rows in looks for record in rows]
    if not found:
        return (None,) * 6
    last = found[-1]

    def mean(column: str) -> float | int:
        seen = [number(one.get(column)) for one in found]
        return int(seen[0]) if len(seen) == 1 else fmean(seen)

    return (
        mean("running"),
        mean("blocked"),
        int(number(last.get("swap_bytes")) - number(last.get("swap_free_bytes"))),
        int(number(last.get("free_bytes"))),
        int(number(last.get("buffers_bytes"))),
        int(number(last.get("cached_bytes"))),
    )


def _page_bytes(period: Period) -> float:
    for record in period.gauge("server"):
        return number(record.get("page_size")) or PAGE_BYTES
    return PAGE_BYTES


def _vmstat(
    counted: Interval | Period, elapsed_s: float, page_bytes: float
) -> tuple[Cell, ...] | None:
    shares = cpu_shares(counted)
    memory = counted.records("host_memory")
    if shares is None:
        return None
    one: Mapping[str, Value] = memory[0] if memory else {}

    def rate(column: str, factor: float = 1.0) -> float | None:
        return ratio(factor * number(one[column]), elapsed_s) if column in one else None

    return (
        rate("swap_in_pages", page_bytes),
        rate("swap_out_pages", page_bytes),
        rate("page_in_kb", 1024),
        rate("page_out_kb", 1024),
        rate("interrupts"),
        rate("context_switches"),
        shares["user"],
        shares["system"],
        shares["idle"],
        shares["iowait"],
        shares["steal"],
    )


_IOSTAT = (
    text("disk", "Device"),
    figure("rrqm_per_s", "rrqm/s", Unit.PER_SECOND, note="Reads merged."),
    figure("wrqm_per_s", "wrqm/s", Unit.PER_SECOND, note="Writes merged."),
    figure("r_per_s", "r/s", Unit.PER_SECOND),
    figure("w_per_s", "w/s", Unit.PER_SECOND),
    figure("r_bytes_per_s", "read/s", Unit.BYTES_PER_SECOND),
    figure("w_bytes_per_s", "written/s", Unit.BYTES_PER_SECOND),
    figure("request_bytes", "Average request", Unit.BYTES),
    figure("queue", "Average queue", Unit.RATIO, note="Requests under way, on average."),
    figure("await_ms", "await", Unit.MILLISECONDS, note="Time of a request, queue included."),
    figure("r_await_ms", "r_await", Unit.MILLISECONDS),
    figure("w_await_ms", "w_await", Unit.MILLISECONDS),
    figure("util", "%util", Unit.SHARE, note="Of the time, with a request under way."),
)


def host_iostat(period: Period) -> ReportTable:
    """Return the columns of iostat, by device, over the whole period."""
    title = "Host: iostat"
    records = [r for r in period.records("host_disks") if _requests(r)]
    if not records:
        reason = period.missing_reason("host_disks") or (
            "No device was active."
            if period.records("host_disks")
            else "Figures of the machine are not available."
        )
        return missing("host-iostat", title, _IOSTAT, reason)
    records.sort(key=lambda r: (-number(r.get("io_time_ms")), str(r.get("disk"))))
    return ReportTable(
        id="host-iostat",
        title=title,
        columns=_IOSTAT,
        rows=tuple(disk_row(record, elapsed_s=period.elapsed_s) for record in records),
        key=("disk",),
        measure="util",
        note="Active whole devices, whatever program used them.",
    )


def disk_row(record: Mapping[str, Value], *, elapsed_s: float) -> Row:
    """Return one device's row."""

    def count(column: str) -> float:
        return number(record.get(column))

    requests = _requests(record)
    size = count("read_bytes") + count("write_bytes")
    busy_ms = count("read_time_ms") + count("write_time_ms")
    used = ratio(count("io_time_ms") / 1000, elapsed_s)
    return Row(
        cells=(
            str(record.get("disk")),
            ratio(count("reads_merged"), elapsed_s),
            ratio(count("writes_merged"), elapsed_s),
            ratio(count("reads"), elapsed_s),
            ratio(count("writes"), elapsed_s),
            ratio(count("read_bytes"), elapsed_s),
            ratio(count("write_bytes"), elapsed_s),
            ratio(size, requests),
            ratio(count("weighted_time_ms") / 1000, elapsed_s),
            ratio(busy_ms, requests),
            ratio(count("read_time_ms"), count("reads")),
            ratio(count("write_time_ms"), count("writes")),
            None if used is None else min(used, 1.0),
        )
    )


def _requests(record: Mapping[str, Value]) -> float:
    return number(record.get("reads")) + number(record.get("writes"))
