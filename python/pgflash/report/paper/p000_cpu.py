# SPDX-License-Identifier: PostgreSQL
"""Paper 000's figures 13 and 14: what processors and sessions did.

A process that waits for an emulated device sleeps, which the kernel counts as idle time and not as
I/O wait.  So the sum of both is compared: the time in which processors had nothing to do because
the processes that would have used them waited.  The paper's machine had no other work; on ours, the
time taken by other programs is left out, so shares are of the rest.
"""

from pgflash.model.awr import AwrReport, Unit, plain
from pgflash.model.exhibit import Chart, ChartForm, ChartSeries, Exhibit
from pgflash.model.paper import Paper
from pgflash.model.run import Attempt, Run
from pgflash.model.summary import BASELINE
from pgflash.report.paper import checks, parts
from pgflash.report.printed import parse_time

_ALL = "all-on-flash"
_SESSIONS = ("cpu", "user_io", "commit")
_SESSIONS_MIN = 0.9


def cpu_exhibit(paper: Paper, run: Run, missing: str) -> Exhibit:
    """Return figure 13: user time and waiting, everything on disks and everything on flash."""
    attempts = parts.middle_attempts(run)
    disk, flash = attempts.get(BASELINE), attempts.get(_ALL)
    if not missing and not (_shares(disk) and _shares(flash)):
        missing = "Not measured: other programs left no processor time to speak of."
    data = paper.table("fig-13")
    user = data.number("user", "HDD"), data.number("user", "SSD")
    wait = data.number("I/O wait", "HDD"), data.number("I/O wait", "SSD")
    before, after = _shares(disk), _shares(flash)
    own_user = _percent(before, _USER), _percent(after, _USER)
    own_wait = _percent(before, _UNUSED), _percent(after, _UNUSED)
    return parts.exhibit_of(
        paper,
        "fig-13",
        ours=parts.figures_table(
            "cpu",
            "The processors, but for what other programs took",
            [
                ("part", "CPU", Unit.TEXT),
                ("disk", "Everything on the array", Unit.SHARE),
                ("flash", "Everything on flash", Unit.SHARE),
            ],
            [(name, before.get(name), after.get(name)) for name in _PARTS],
        )
        if before and after
        else None,
        charts=(
            Chart(
                form=ChartForm.BARS,
                title="Processors' time",
                unit="%",
                labels=(
                    "user, on disks",
                    "user, on flash",
                    "waiting or idle, on disks",
                    "waiting or idle, on flash",
                ),
                series=(
                    ChartSeries(
                        name="paper (I/O wait alone)", values=(*user, *wait), of_paper=True
                    ),
                    ChartSeries(name="here", values=(*own_user, *own_wait)),
                ),
            ),
        ),
        checks=checks.checks(
            checks.same_direction("User time", paper=user, ours=own_user, unit="%"),
            checks.same_direction(
                "Time without work (in the paper I/O wait; here idle too)",
                paper=wait,
                ours=own_wait,
                unit="%",
            ),
        ),
        reason="Where other programs keep the processors busy, the server gets less of them and "
        "its clients wait for a processor instead of a disk.",
        missing=missing,
    )


_USER, _SYSTEM, _LOAD, _UNUSED = "user", "system", "the load's own driver", "waiting or idle"
_PARTS = (_USER, _SYSTEM, _LOAD, _UNUSED)
#: If less than this share of the machine was left, the figures mean nothing.
_LEFT_MIN = 0.05


def _shares(attempt: Attempt | None) -> dict[str, float]:
    """Return how the processors' time was used, as shares of what other programs left."""
    if attempt is None:
        return {}
    cpu = attempt.cpu
    capacity_s = cpu.cores * cpu.elapsed_s
    left_s = capacity_s - cpu.foreign_s
    if left_s <= _LEFT_MIN * capacity_s:
        return {}
    user, system, load = (
        min(max(one / left_s, 0.0), 1.0)
        for one in (cpu.server_user_s, cpu.server_system_s, cpu.driver_s)
    )
    return {_USER: user, _SYSTEM: system, _LOAD: load, _UNUSED: max(1 - user - system - load, 0.0)}


def _percent(shares: dict[str, float], name: str) -> float | None:
    return 100 * shares[name] if shares else None


def sessions_exhibit(paper: Paper, report: AwrReport | None, missing: str) -> Exhibit:
    """Return figure 14: sessions by wait class over time, everything on flash."""
    ours = parts.table_of(report, "aas-over-time")
    if ours is None:
        why = missing or "Not measured: nobody looked at the sessions in this run."
        return parts.exhibit_of(paper, "fig-14", missing=why)
    moments = [parse_time(str(plain(row.cells[0]))) for row in ours.rows]
    begins = [one.timestamp() if one else 0.0 for one in moments]
    shown = [one for one in ours.columns if one.unit is Unit.SESSIONS and one.name != "all"]
    values = {one.name: tuple(_value(cell) for cell in ours.values(one.name)) for one in shown}
    sums = {name: sum(one or 0.0 for one in column) for name, column in values.items()}
    all_of_them = sum(sums.values())
    share = sum(sums.get(name, 0.0) for name in _SESSIONS) / all_of_them if all_of_them else 0.0
    return parts.exhibit_of(
        paper,
        "fig-14",
        ours=ours,
        charts=(
            Chart(
                form=ChartForm.STACKED,
                title="Average active sessions",
                unit="sessions",
                at_s=tuple(begin - begins[0] for begin in begins),
                lasting_s=tuple(_value(cell) or 0.0 for cell in ours.values("elapsed_s")),
                series=tuple(
                    ChartSeries(name=one.title, values=values[one.name])
                    for one in shown
                    if sums[one.name] > 0
                ),
            ),
        ),
        checks=(
            checks.is_true(
                share >= _SESSIONS_MIN,
                yes=f"CPU, User I/O and Commit are {share:.0%} of what sessions did; the paper "
                "says that there is nothing else.",
                no=f"CPU, User I/O and Commit are only {share:.0%} of what sessions did, and not "
                f"{_SESSIONS_MIN:.0%} or more; the paper says that there is nothing else.",
            ),
        ),
        reason="With few warehouses clients wait for each other's rows (Application).",
        missing=missing,
    )


def _value(cell: object) -> float | None:
    return float(cell) if isinstance(cell, int | float) else None
