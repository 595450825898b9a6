# SPDX-License-Identifier: PostgreSQL
"""DB CPU: what was measured, and what samples of working sessions show beyond it.

A session that samples show as active, without an event, was on a processor or waiting for one.
From the seconds of those samples we subtract the measured CPU time outside of file calls; a
copy from the page cache is both a file call and CPU time.  The remainder is first attributed
to unseen use by sessions that ended, then to waiting for a processor.

If more was measured than the samples can account for, beyond twice their error, the rest was used
where a sample does not see work.  Either it was within a file call (copying, the kernel), whose
wait already includes it; or no statement ran (answering a client, reading its next statement),
which is not DB time.  It is shown separately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgflash.analyze.dbtime import TimePart
from pgflash.analyze.period import Period
from pgflash.analyze.samples import SampledWait, error_s
from pgflash.analyze.sections import number, total
from pgflash.model.awr import Source
from pgflash.model.snapshot import Value
from pgflash.model.waits import WaitClass

CPU = "DB CPU"
CPU_OR_WAIT = "CPU, or waiting for a processor"
CPU_WAIT = "waiting for a processor"
CPU_OUTSIDE = "DB CPU within file calls or between statements"
#: CPU time used between a process's last reading and its end; usually a session's.
CPU_ENDED = "DB CPU of sessions that ended, at most"

#: Above this, a read "from the page cache" was more than the mere copy of a block.
COPY_S_MAX = 100e-6


def measured_cpu_s(period: Period, kinds: frozenset[str]) -> float | None:
    """Return the CPU time of some kinds of processes; None if it was not measured."""
    records = [r for r in period.records("backend_cpu") if r.get("backend_type") in kinds]
    return total(records, "cpu_seconds") if records else None


def is_page_cache(record: Mapping[str, Value]) -> bool:
    """Tell whether a row's calls were mere copies in memory."""
    if record.get("source") != "page cache":
        return False
    blocks = max(number(record.get("bytes")) / 8192, number(record.get("calls")), 1.0)
    return number(record.get("time_ms")) / 1000 / blocks <= COPY_S_MAX


def cpu_parts(
    period: Period, kinds: frozenset[str], at_work: Sequence[SampledWait], cpu_s: float | None
) -> list[TimePart]:
    """Return the parts of class CPU."""
    at_work_s = sum(wait.seconds for wait in at_work)
    if cpu_s is None:
        return [_part(CPU_OR_WAIT, at_work_s, Source.SAMPLED)]
    left_s = at_work_s - max(cpu_s - _copies_s(period, kinds), 0.0)
    if not at_work or -2 * error_s(at_work) <= left_s <= 0:
        return [_part(CPU, cpu_s, Source.EXACT)]
    if left_s < 0:
        outside = _part(CPU_OUTSIDE, -left_s, Source.SAMPLED)
        return [_part(CPU, cpu_s + left_s, Source.SAMPLED), replace(outside, apart=True)]
    ended_s = min(_ended_s(period), left_s)
    parts = [
        _part(CPU, cpu_s, Source.EXACT),
        _part(CPU_ENDED, ended_s, Source.MODELLED),
        _part(CPU_WAIT, left_s - ended_s, Source.SAMPLED),
    ]
    return [part for part in parts if part.total_s > 0 or part.event == CPU]


def _copies_s(period: Period, kinds: frozenset[str]) -> float:
    """Return the time of copies from the page cache that these processes made themselves.

    What an I/O worker of PostgreSQL 18 copied for a session is in no CPU time of the session.
    """
    records = [r for r in period.records("io") if r.get("backend_type") in kinds]
    copies = [r for r in records if is_page_cache(r)]
    return (total(copies, "time_ms") - total(copies, "worker_time_ms")) / 1000


def _ended_s(period: Period) -> float:
    records = period.records("backend_cpu")
    return total((r for r in records if r.get("backend_type") == "unattributed"), "cpu_seconds")


def _part(event: str, total_s: float, source: Source) -> TimePart:
    return TimePart(event=event, wait_class=WaitClass.CPU, total_s=total_s, source=source)
