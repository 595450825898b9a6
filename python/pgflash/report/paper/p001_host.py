# SPDX-License-Identifier: PostgreSQL
"""Paper 001's vmstat and iostat tables, and its figures 5 to 7, which show these over time.

They cover an approach without a cache and one with it; either may be missing from a run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgflash.model.awr import AwrReport, Unit
from pgflash.model.exhibit import Check, Exhibit
from pgflash.model.paper import PaperTable, read_paper
from pgflash.model.run import Attempt, Run
from pgflash.model.summary import Summary, summarize
from pgflash.report.paper import checks, host, parts

PAPER = read_paper("001")

_DISK, _FLASH = "Hard drives", "Flash cache"
_ARRAY, _CARD = "array", "flash"
#: The disk that held the paper's data, and its flash card.
_DATA_DISK, _FLASH_CARD = "sdd", "sda"
#: If a device is busy for more than this, everybody waits for it.
_BUSY = 0.9
_NOT_LOOKED = "Not measured: this run did not look at devices and host every second."
MACHINE = (
    "The paper's machine had many processors and a disk LUN that was far behind them; here the "
    "distance between disks and processors is another, and so is the number of clients."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The two approaches that the paper compares, in a run."""

    run: Run
    reports: Mapping[str, AwrReport]
    #: Without a cache, and with it.
    base: Summary | None
    cache: Summary | None

    @classmethod
    def of(cls, run: Run, reports: Mapping[str, AwrReport]) -> "Pair":
        """Return the first approach without a cache, and that with the largest cache in one file.

        The paper's cache was 35 times as large as its buffer cache, on one card.
        """
        every = summarize(run)
        cached = [one for one in every if one.approach.cache]
        plain = [one for one in cached if one.approach.cache_files == 1 and not one.approach.keep]
        cached = sorted(plain or cached, key=_size_bytes, reverse=True)
        return cls(
            run=run,
            reports=reports,
            base=next((one for one in every if not one.approach.cache), None),
            cache=next(iter(cached), None),
        )

    @property
    def missing(self) -> str:
        """Say why the two cannot be compared; "" if they can."""
        if self.base is None:
            return "Not measured: this run has no approach without a flash cache."
        if self.cache is None:
            return "Not measured: this run has no approach with a flash cache."
        return ""

    def report(self, one: Summary | None) -> AwrReport | None:
        """Return an approach's report."""
        return self.reports.get(one.approach.name) if one else None

    @property
    def attempts(self) -> tuple[Attempt | None, Attempt | None]:
        """Return the middle attempts, without and with the cache."""
        return (
            self.base.middle if self.base else None,
            self.cache.middle if self.cache else None,
        )

    def both(self) -> tuple[Summary, ...]:
        """Return those of the two approaches that exist."""
        return tuple(one for one in (self.base, self.cache) if one)


def _size_bytes(one: Summary) -> int:
    return one.middle.cache.size_bytes if one.middle.cache else 0


def host_exhibits(pair: Pair, *, cached: bool) -> tuple[Exhibit, Exhibit]:
    """Return vmstat and iostat, without the cache or with it."""
    return (
        (_vmstat_cached(pair), _iostat_cached(pair)) if cached else (_vmstat(pair), _iostat(pair))
    )


def figures_over_time(pair: Pair) -> tuple[Exhibit, ...]:
    """Return figures 5 to 7: blocked threads, reads from the disks, their wait."""
    return _blocked(pair), _reads(pair), _wait(pair)


def _vmstat(pair: Pair) -> Exhibit:
    attempt, _ = pair.attempts
    blocked, runnable = (_printed_mean(PAPER.table("vmstat-disk"), one) for one in ("b", "r"))
    own_blocked, own_runnable = _own_mean(attempt, "b"), _own_mean(attempt, "r")
    found = None
    if own_blocked is not None and own_runnable is not None:
        found = checks.is_true(
            own_blocked > own_runnable,
            yes=f"More processes wait than run: {blocked:.1f} are blocked and {runnable:.1f} run "
            f"in the paper, {own_blocked:.1f} and {own_runnable:.1f} here.",
            no=f"In the paper {blocked:.1f} processes are blocked and {runnable:.1f} run, here "
            f"{own_blocked:.1f} and {own_runnable:.1f}.",
        )
    return _of_host(pair, "vmstat-disk", attempt, found)


def _vmstat_cached(pair: Pair) -> Exhibit:
    disk, flash = PAPER.table("vmstat-disk"), PAPER.table("vmstat-flash")
    before, after = pair.attempts
    found = (
        checks.same_direction(
            f"With the cache {what}",
            paper=(_printed_mean(disk, column), _printed_mean(flash, column)),
            ours=(_own_mean(before, column), _own_mean(after, column)),
            unit=unit,
        )
        for column, what, unit in (
            ("b", "the number of blocked processes (b)", ""),
            ("us", "user time (us)", "%"),
            ("cs", "the number of context switches (cs)", "/s"),
            ("bi", "what is read (bi)", "kB/s"),
        )
    )
    return _of_host(pair, "vmstat-flash", after, *found)


def _of_host(pair: Pair, table_id: str, attempt: Attempt | None, *found: Check | None) -> Exhibit:
    ours = host.vmstat_table(attempt)
    return parts.exhibit_of(
        PAPER,
        table_id,
        ours=ours,
        checks=checks.checks(*found),
        reason=MACHINE,
        missing=pair.missing or ("" if ours else _NOT_LOOKED),
    )


def _printed_mean(table: PaperTable, column: str) -> float:
    """Return the mean of one of the paper's columns."""
    place = table.columns.index(column)
    return sum(float(row[place]) for row in table.rows) / len(table.rows)


def _own_mean(attempt: Attempt | None, column: str) -> float | None:
    """Return the mean of our column, in the paper's unit; None if nobody looked."""
    if attempt is None or not attempt.host_seconds:
        return None
    if column == "us":
        cpu = [second.user for second in attempt.cpu_seconds]
        return 100 * sum(cpu) / len(cpu) if cpu else None
    seconds = attempt.host_seconds
    total = {
        "r": sum(second.runnable for second in seconds),
        "b": sum(second.blocked for second in seconds),
        "cs": sum(second.context_switches_per_s for second in seconds),
        "bi": sum(second.in_bytes_per_s for second in seconds) / 1024,
    }[column]
    return total / len(seconds)


def _iostat(pair: Pair) -> Exhibit:
    attempt, _ = pair.attempts
    busy = host.busy(attempt, _ARRAY)
    printed = PAPER.table("iostat-disk").number(_DATA_DISK, "%util") or 0.0
    found = None
    if busy is not None:
        figures = f"{printed:.0f} % of the time in the paper, {busy:.0%} here"
        found = checks.is_true(
            busy > _BUSY,
            yes=f"The disks are never idle: busy {figures}.",
            no=f"The disks are not as busy: {figures}.",
        )
    return _of_devices(pair, "iostat-disk", attempt, found)


def _iostat_cached(pair: Pair) -> Exhibit:
    data = PAPER.table("iostat-flash")
    _, attempt = pair.attempts
    theirs = [data.number(disk, "r/s") for disk in (_FLASH_CARD, _DATA_DISK)]
    reads = [
        host.device_rate(attempt, role, lambda second: second.reads) for role in (_CARD, _ARRAY)
    ]
    waits = [data.number(disk, "await") for disk in (_FLASH_CARD, _DATA_DISK)]
    fast, slow = (host.read_await_ms(attempt, role) for role in (_CARD, _ARRAY))
    found = None
    if fast is not None and slow is not None:
        figures = f"{waits[0]} ms and {waits[1]} ms in the paper, {fast:.2f} and {slow:.2f} ms here"
        found = checks.is_true(
            fast < slow,
            yes=f"A request to flash takes less time than one to the disks: {figures}.",
            no=f"A request to flash takes no less time than one to the disks: {figures}.",
        )
    return _of_devices(
        pair,
        "iostat-flash",
        attempt,
        checks.within(
            "Of the reads flash serves",
            paper=_percent_of(theirs[0], theirs[1]),
            ours=_percent_of(reads[0], reads[1]),
            unit="%",
            factor=1.25,
        ),
        found,
    )


def _of_devices(
    pair: Pair, table_id: str, attempt: Attempt | None, *found: Check | None
) -> Exhibit:
    ours = host.iostat_table(attempt)
    return parts.exhibit_of(
        PAPER,
        table_id,
        ours=ours,
        checks=checks.checks(*found),
        reason=MACHINE,
        missing=pair.missing or ("" if ours else _NOT_LOOKED),
    )


def _percent_of(part: float | None, rest: float | None) -> float | None:
    if part is None or rest is None or part + rest <= 0:
        return None
    return 100 * part / (part + rest)


def _blocked(pair: Pair) -> Exhibit:
    return _over_time(
        pair,
        "fig-5",
        "Blocked threads (vmstat's b)",
        "The number of blocked processes",
        own=host.blocked,
        title="Blocked processes",
        line=lambda one: host.host_line(one, lambda second: second.blocked),
        unit=Unit.COUNT,
    )


def _reads(pair: Pair) -> Exhibit:
    return _over_time(
        pair,
        "fig-6",
        "Reads/s of the data's disks (iostat's r/s of sdd)",
        "The number of reads from the disks",
        own=lambda one: host.device_rate(one, _ARRAY, lambda second: second.reads),
        title="Reads from the disks",
        line=lambda one: host.device_line(
            one, _ARRAY, lambda second: second.reads / second.elapsed_s
        ),
        unit=Unit.PER_SECOND,
    )


def _wait(pair: Pair) -> Exhibit:
    return _over_time(
        pair,
        "fig-7",
        "Average wait, ms",
        "The mean wait of a read from the disks",
        own=lambda one: host.read_await_ms(one, _ARRAY),
        title="Mean wait of a read from the disks",
        line=lambda one: host.device_line(
            one, _ARRAY, lambda second: second.read_ms if second.reads else None
        ),
        unit=Unit.MILLISECONDS,
    )


def _over_time(
    pair: Pair,
    figure_id: str,
    row: str,
    what: str,
    *,
    own: Callable[[Attempt | None], float | None],
    title: str,
    line: Callable[[Attempt], list[tuple[float, float]]],
    unit: Unit,
) -> Exhibit:
    """Return a figure of one number over time, without and with the cache."""
    data = PAPER.table(figure_id)
    theirs = data.number(row, _DISK), data.number(row, _FLASH)
    before, after = (own(one) for one in pair.attempts)
    looked = before is not None and after is not None
    chart = host.lines_chart(
        title, _LABEL[unit], {one.approach.title: line(one.middle) for one in pair.both()}
    )
    return parts.exhibit_of(
        PAPER,
        figure_id,
        ours=host.lines_table(figure_id, chart, unit) if looked else None,
        charts=(chart,) if looked else (),
        checks=checks.checks(
            checks.same_direction(what, paper=theirs, ours=(before, after), unit=_LABEL[unit]),
        ),
        reason=MACHINE,
        missing=pair.missing or ("" if looked else _NOT_LOOKED),
    )


_LABEL = {Unit.COUNT: "", Unit.PER_SECOND: "/s", Unit.MILLISECONDS: "ms"}
