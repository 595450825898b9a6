# SPDX-License-Identifier: PostgreSQL
"""Paper 000: the ways of using flash under an OLTP load, and what the drives cost.

Its charts have no numbers; what they show is derived from its AWR extracts: throughput from the
commits of the hour, times of reads and commits from the events.  Ours are from the middle attempts'
reports.  A commit's time here is the time in class Commit divided by all transactions: what Oracle
calls log file sync is several events in PostgreSQL, some of which are sampled and have no number of
waits.
"""

from collections.abc import Collection, Mapping, Sequence

from pgflash.model.awr import AwrReport, Cell, ReportTable, RowMark, Source, Unit, plain
from pgflash.model.exhibit import Chart, ChartForm, ChartSeries, Check, Exhibit, PaperPage
from pgflash.model.paper import PaperTable, paper_figure, paper_figures, read_paper
from pgflash.model.run import Run
from pgflash.model.summary import BASELINE, Summary, summarize
from pgflash.report.paper import checks, p000_cost, parts
from pgflash.report.paper.p000_cpu import cpu_exhibit, sessions_exhibit

PAPER = read_paper("000")

FLASH_CACHE, WAL, HOT, ALL = "flash-cache", "wal-on-flash", "hot-objects", "all-on-flash"

_READ = "db file sequential read"
_FLASH_READ = "db flash cache single block physical read"
_COMMIT = "log file sync"
_TIME, _WAITS, _MEAN = "Total Wait Time (sec)", "Waits", "Wait Avg (ms)"
_CEILING = (
    "Everything on flash over the baseline is the processors' limit over the array's IOPS: it is "
    "set by the number of spindles that were chosen."
)
_WHAT_MOVES = (
    "What an approach brings depends on how much of the time went into what it moves: commits "
    "into the log, reads into what the cache or the moved tables hold."
)
_MEAN_READ, _MEAN_COMMIT = "Mean read", "Mean commit"
_OTHER_SIZE = (
    "The paper's database was 500 GB under 100 users on 40 hardware threads; this one is small, "
    "with few clients on few processors, so the same waits take other shares of DB time."
)
_WAITS_HERE = (
    "PostgreSQL's commit waits are mostly LWLock:WALWrite (somebody else's write is under way) and "
    "the write's own sync, where Oracle has one event, log file sync."
)


def build(run: Run, reports: Mapping[str, AwrReport]) -> PaperPage:
    """Return the page."""
    sides = _Sides(run, reports)
    exhibits = (
        _baseline(sides),
        _flash_cache(sides),
        _throughput_and(sides, "fig-5", FLASH_CACHE, read=True),
        _wal(sides),
        _throughput_and(sides, "fig-8", WAL, read=False),
        _hot(sides),
        _compared(sides, "fig-10", (BASELINE, FLASH_CACHE, WAL, HOT)),
        _everything(sides),
        _compared(sides, "fig-12", (BASELINE, FLASH_CACHE, WAL, HOT, ALL)),
        cpu_exhibit(PAPER, run, sides.missing(BASELINE, ALL, reported=False)),
        sessions_exhibit(PAPER, reports.get(ALL), sides.missing(ALL)),
        p000_cost.cost_exhibit(PAPER, run),
    )
    return parts.page_of(PAPER, run, says=_says(sides, exhibits), exhibits=exhibits)


class _Sides:
    """Both sides' figures of each approach."""

    def __init__(self, run: Run, reports: Mapping[str, AwrReport]) -> None:
        self.run = run
        self.reports = reports
        self.summaries: dict[str, Summary] = {one.approach.name: one for one in summarize(run)}

    def missing(self, *approaches: str, reported: bool = True) -> str:
        """Say why an exhibit about these approaches cannot be shown; "" if it can."""
        kept: Collection[str] = self.reports if reported else approaches
        return parts.why_missing(self.run, kept, *approaches)

    def ratio(self, approach: str) -> float | None:
        """Return our throughput divided by the baseline's."""
        base, one = self.summaries.get(BASELINE), self.summaries.get(approach)
        return one.tpm / base.tpm if one and base and base.tpm > 0 else None

    def ratios(self, approaches: Sequence[str]) -> dict[str, float]:
        """Return the same for the measured approaches, by name."""
        found = ((name, self.ratio(name)) for name in approaches)
        return {name: ratio for name, ratio in found if ratio is not None}

    def read_ms(self, approach: str) -> float | None:
        """Return the mean time of a read from whatever source."""
        one = self.summaries.get(approach)
        return one.read_ms if one and one.middle.reads.blocks else None

    def disk_ms(self, approach: str) -> float | None:
        """Return the mean time of a client's read from disk."""
        events = parts.table_of(self.reports.get(approach), "top-events")
        return parts.number_of(events, "data file read, disk", "mean_ms")

    def commit_ms(self, approach: str) -> float | None:
        """Return the mean time in class Commit per transaction."""
        report = self.reports.get(approach)
        total_s = parts.number_of(parts.table_of(report, "wait-classes"), "Commit", "total_s")
        count = parts.number_of(parts.table_of(report, "load-profile"), "transactions", "total")
        return 1000 * total_s / count if total_s is not None and count else None

    def percent(self, approach: str, wait_class: str) -> float | None:
        """Return a class's share of DB time, in percent."""
        return parts.class_percent(self.reports.get(approach), wait_class)

    def cpu_percent(self, approach: str) -> float | None:
        """Return DB CPU's share of DB time, in percent."""
        return parts.event_percent(self.reports.get(approach), "DB CPU")

    def events(self, approach: str) -> ReportTable | None:
        """Return the top events."""
        return parts.top_events(self.reports.get(approach))


_BASE = PAPER.table("fig-3")
_EVENTS = {FLASH_CACHE: "fig-4", WAL: "fig-7", HOT: "fig-9", ALL: "fig-11"}


def _paper_read_ms(approach: str) -> float | None:
    """Return the paper's mean time of a single-block read, disk and flash together."""
    if approach == BASELINE:
        return _BASE.number("User I/O", "Avg Wait (ms)")
    table = PAPER.table(_EVENTS[approach])
    rows = [row[0] for row in table.rows if row[0] in (_READ, _FLASH_READ)]
    waits = sum(table.number(row, _WAITS) or 0 for row in rows)
    return 1000 * sum(table.number(row, _TIME) or 0 for row in rows) / waits


def _paper_disk_ms(approach: str) -> float | None:
    """Return the paper's mean time of a single-block read from disk."""
    if approach == BASELINE:
        return _paper_read_ms(BASELINE)
    return PAPER.table(_EVENTS[approach]).number(_READ, _MEAN)


def _paper_commit_ms(approach: str) -> float | None:
    if approach == BASELINE:
        return _BASE.number("Commit", "Avg Wait (ms)")
    return PAPER.table(_EVENTS[approach]).number(_COMMIT, _MEAN)


def _paper_percent(approach: str, wait_class: str) -> float:
    if approach == BASELINE:
        return _BASE.number(wait_class, "% DB time") or 0.0
    return parts.paper_class_share(PAPER.table(_EVENTS[approach]), wait_class)


def _paper_cpu_percent(approach: str) -> float | None:
    table = _BASE if approach == BASELINE else PAPER.table(_EVENTS[approach])
    return table.number("DB CPU", "% DB time")


def _paper_ratio(approach: str) -> float | None:
    found = paper_figure(approach)
    return found.ratio if found else None


# ---- tables of events -------------------------------------------------------------------


def _baseline(sides: _Sides) -> Exhibit:
    missing = sides.missing(BASELINE)
    ours = parts.wait_classes(sides.reports.get(BASELINE))
    both = sum(_paper_percent(BASELINE, one) for one in ("User I/O", "Commit"))
    own = [sides.percent(BASELINE, one) for one in ("User I/O", "Commit")]
    own_both = None if None in own else sum(one or 0.0 for one in own)
    first = _largest_classes(ours)
    return parts.exhibit_of(
        PAPER,
        "fig-3",
        ours=ours,
        checks=checks.checks(
            checks.is_true(
                first == {"User I/O", "Commit"},
                yes="User I/O and Commit are the two classes in which most of DB time goes, as in "
                "the paper.",
                no="The two largest classes are User I/O and Commit in the paper, and "
                f"{' and '.join(sorted(first))} here.",
            )
            if first
            else None,
            checks.within(
                "User I/O and Commit together, of DB time", paper=both, ours=own_both, unit="%"
            ),
            checks.within(
                "A read takes",
                paper=_paper_read_ms(BASELINE),
                ours=sides.read_ms(BASELINE),
                unit="ms",
            ),
            checks.within(
                "DB CPU, of DB time",
                paper=_paper_cpu_percent(BASELINE),
                ours=sides.cpu_percent(BASELINE),
                unit="%",
                factor=4,
            ),
        ),
        reason=_OTHER_SIZE,
        missing=missing,
    )


def _largest_classes(table: ReportTable | None) -> set[str]:
    if table is None:
        return set()
    place = table.index("total_s")
    counted = [row for row in table.rows if row.mark is RowMark.PLAIN]
    counted.sort(key=lambda row: -_number(row.cells[place]))
    return {str(row.cells[0]) for row in counted[:2]}


def _number(cell: Cell) -> float:
    value = plain(cell)
    return float(value) if isinstance(value, int | float) else 0.0


def _flash_cache(sides: _Sides) -> Exhibit:
    table = PAPER.table("fig-4")
    reads = {name: table.number(name, _WAITS) or 0 for name in (_READ, _FLASH_READ)}
    one = sides.summaries.get(FLASH_CACHE)
    served = one.middle.reads if one else None
    device_reads = served.flash + served.disk if served else 0
    ours = sides.events(FLASH_CACHE)
    slow = parts.number_of(ours, "data file read, disk", "mean_ms")
    fast = parts.number_of(ours, "data file read, flash cache", "mean_ms")
    times = (table.number(_READ, _MEAN) or 0) / (table.number(_FLASH_READ, _MEAN) or 1)
    return parts.exhibit_of(
        PAPER,
        "fig-4",
        ours=ours,
        checks=checks.checks(
            _same_first_class(sides, table, FLASH_CACHE),
            _share_moves(sides, "User I/O", BASELINE, FLASH_CACHE),
            checks.within(
                "Reads past the page cache that flash served",
                paper=100 * reads[_FLASH_READ] / sum(reads.values()),
                ours=100 * served.flash / device_reads if served and device_reads else None,
                unit="%",
            ),
            checks.within(
                "A read from disk takes so many times as long as one from flash",
                paper=times,
                ours=slow / fast if slow and fast else None,
                factor=4,
            ),
        ),
        reason="The paper's disks stayed as loaded as before, since the redo log was on them too; "
        "with few clients a cache takes the load off the disks, and their reads become faster. "
        "A read from emulated flash is never faster than the wake-up of a process. " + _WAITS_HERE,
        missing=sides.missing(BASELINE, FLASH_CACHE),
    )


def _wal(sides: _Sides) -> Exhibit:
    return parts.exhibit_of(
        PAPER,
        "fig-7",
        ours=sides.events(WAL),
        checks=checks.checks(
            _same_first_class(sides, PAPER.table("fig-7"), WAL),
            _share_moves(sides, "Commit", BASELINE, WAL),
            _share_moves(sides, "User I/O", BASELINE, WAL),
            checks.same_direction(
                "A read from disk takes time that",
                paper=(_paper_disk_ms(BASELINE), _paper_disk_ms(WAL)),
                ours=(sides.disk_ms(BASELINE), sides.disk_ms(WAL)),
                unit="ms",
            ),
        ),
        reason="The paper's run still had a flash cache that served a fifth of its reads, and its "
        "redo logs were so small that sessions waited for checkpoints (Configuration); the lab "
        "keeps checkpoints out of the measured time.",
        missing=sides.missing(BASELINE, WAL),
    )


def _hot(sides: _Sides) -> Exhibit:
    return parts.exhibit_of(
        PAPER,
        "fig-9",
        ours=sides.events(HOT),
        checks=checks.checks(
            _same_first_class(sides, PAPER.table("fig-9"), HOT),
            checks.same_direction(
                "A read's time",
                paper=(_paper_read_ms(BASELINE), _paper_read_ms(HOT)),
                ours=(sides.read_ms(BASELINE), sides.read_ms(HOT)),
                unit="ms",
            ),
            _cpu_moves(sides, BASELINE, HOT),
            _share_moves(sides, "Commit", BASELINE, HOT),
        ),
        reason="How much is left to be read from the disks is set by which tables are moved: the "
        "more of what is read, the sooner processors are what remains.",
        missing=sides.missing(BASELINE, HOT),
    )


def _everything(sides: _Sides) -> Exhibit:
    return parts.exhibit_of(
        PAPER,
        "fig-11",
        ours=sides.events(ALL),
        checks=checks.checks(
            _same_first_class(sides, PAPER.table("fig-11"), ALL),
            _cpu_moves(sides, BASELINE, ALL),
            _share_moves(sides, "User I/O", BASELINE, ALL),
            checks.same_direction(
                "A read's time",
                paper=(_paper_read_ms(BASELINE), _paper_read_ms(ALL)),
                ours=(sides.read_ms(BASELINE), sides.read_ms(ALL)),
                unit="ms",
            ),
        ),
        reason="With everything on flash the processors are what is short: how much of DB time "
        "is spent waiting for one depends on how many clients share how many of them.",
        missing=sides.missing(BASELINE, ALL),
    )


def _same_first_class(sides: _Sides, table: PaperTable, approach: str) -> Check | None:
    theirs = table.rows[0][-1] or "CPU"
    return checks.same_first(
        "The class of the first event",
        paper=theirs,
        ours=parts.first_class(sides.reports.get(approach)),
    )


def _share_moves(sides: _Sides, wait_class: str, before: str, after: str) -> Check | None:
    return checks.same_direction(
        f"{wait_class}'s share of DB time",
        paper=(_paper_percent(before, wait_class), _paper_percent(after, wait_class)),
        ours=(sides.percent(before, wait_class), sides.percent(after, wait_class)),
        unit="%",
    )


def _cpu_moves(sides: _Sides, before: str, after: str) -> Check | None:
    return checks.same_direction(
        "DB CPU's share of DB time",
        paper=(_paper_cpu_percent(before), _paper_cpu_percent(after)),
        ours=(sides.cpu_percent(before), sides.cpu_percent(after)),
        unit="%",
    )


# ---- charts of throughput ---------------------------------------------------------------


def _throughput_and(sides: _Sides, figure_id: str, approach: str, *, read: bool) -> Exhibit:
    """Return a figure of two bars of throughput and two of a time: reads, or commits."""
    pair = (BASELINE, approach)
    what = _MEAN_READ if read else _MEAN_COMMIT
    paper_ms = [(_paper_read_ms if read else _paper_commit_ms)(one) for one in pair]
    own_ms = [(sides.read_ms if read else sides.commit_ms)(one) for one in pair]
    titles = [_title(sides, one) for one in pair]
    return parts.exhibit_of(
        PAPER,
        figure_id,
        paper_table=_derived(figure_id, pair, (what, paper_ms)),
        ours=_ours(sides, pair, (what, own_ms)),
        charts=(
            _ratio_chart(sides, pair),
            Chart(
                form=ChartForm.BARS,
                title=what,
                unit="ms",
                labels=tuple(titles),
                series=(
                    ChartSeries(name="paper", values=tuple(paper_ms), of_paper=True),
                    ChartSeries(name="here", values=tuple(own_ms)),
                ),
            ),
        ),
        checks=checks.checks(
            checks.within(
                "Throughput, as a multiple of the baseline",
                paper=_paper_ratio(approach),
                ours=sides.ratio(approach),
            ),
            checks.same_direction(
                "The mean time of a read" if read else "The mean time of a commit",
                paper=(paper_ms[0], paper_ms[1]),
                ours=(own_ms[0], own_ms[1]),
                unit="ms",
            ),
        ),
        reason="What a cache or a faster log brings is bounded by what the clients wait for next: "
        "the disks that still serve the other half.",
        missing=sides.missing(*pair),
    )


def _compared(sides: _Sides, figure_id: str, approaches: Sequence[str]) -> Exhibit:
    """Return a figure that compares the throughput of several approaches."""
    theirs = {name: _paper_ratio(name) or 0.0 for name in approaches}
    ours = sides.ratios(approaches)
    titles = {name: _title(sides, name) for name in approaches}
    absent = [titles[name] for name in approaches if name not in ours]
    placed = [name for name in approaches if name != FLASH_CACHE]
    order = checks.same_order(
        "Throughput",
        paper={titles[name]: theirs[name] for name in placed},
        ours={titles[name]: ours[name] for name in placed if name in ours},
    )
    return parts.exhibit_of(
        PAPER,
        figure_id,
        paper_table=_derived(figure_id, approaches),
        ours=_ours(sides, approaches),
        charts=(_ratio_chart(sides, approaches),),
        checks=checks.checks(
            order,
            _between(titles, theirs, ours),
            *(
                checks.within(titles[name], paper=theirs[name], ours=ours.get(name))
                for name in approaches
                if name != BASELINE
            ),
            checks.is_true(False, yes="", no=f"Not measured in this run: {', '.join(absent)}.")
            if absent
            else None,
        ),
        reason=_CEILING if ALL in approaches else _WHAT_MOVES,
        missing="" if len(ours) > 1 else "Not measured: this run has not two of these approaches.",
    )


def _between(
    titles: Mapping[str, str], theirs: Mapping[str, float], ours: Mapping[str, float]
) -> Check | None:
    """Check that the cache is above the baseline and below the best.

    Its place relative to the WAL on flash is not compared: the paper's run with the redo log on
    flash also had the cache on.
    """
    best = list(theirs)[-1]
    if not {BASELINE, FLASH_CACHE, best} <= set(ours):
        return None
    holds = ours[BASELINE] < ours[FLASH_CACHE] < ours[best]
    where = f"between {titles[BASELINE].lower()} and {titles[best].lower()}"
    return checks.is_true(
        holds,
        yes=f"{titles[FLASH_CACHE]}: {where}, as in the paper. (Its run with the redo log on flash "
        "had the cache on as well, so the two are not ranked.)",
        no=f"{titles[FLASH_CACHE]}: {where} in the paper, and not here.",
    )


def _title(sides: _Sides, approach: str) -> str:
    one = sides.summaries.get(approach)
    if one is not None:
        return one.approach.title
    found = paper_figure(approach)
    return found.title if found else approach


def _ratio_chart(sides: _Sides, approaches: Sequence[str]) -> Chart:
    return Chart(
        form=ChartForm.BARS,
        title="Throughput",
        unit="times the baseline",
        labels=tuple(_title(sides, name) for name in approaches),
        series=(
            ChartSeries(
                name="paper", values=tuple(_paper_ratio(name) for name in approaches), of_paper=True
            ),
            ChartSeries(name="here", values=tuple(sides.ratio(name) for name in approaches)),
        ),
    )


def _derived(
    figure_id: str,
    approaches: Sequence[str],
    time: tuple[str, Sequence[float | None]] | None = None,
) -> ReportTable:
    """Return the numbers behind a chart of the paper, from its tables."""
    columns = [
        ("approach", "Approach", Unit.TEXT),
        ("commits", "Commits in the hour", Unit.COUNT),
        ("ratio", "Times the baseline", Unit.RATIO),
        ("printed", "Printed as", Unit.TEXT),
    ]
    rows: list[list[Cell]] = [
        [one.title, one.commits, one.ratio, one.printed or None]
        for one in paper_figures()
        if one.approach in approaches
    ]
    if time is not None:
        columns.insert(3, ("time_ms", time[0], Unit.MILLISECONDS))
        for row, value in zip(rows, time[1], strict=True):
            row.insert(3, value)
    return parts.figures_table(
        f"paper-{figure_id}",
        "From its tables",
        columns,
        rows,
        source=None,
        note="The figure is a chart; these are the log file syncs and times of its AWR extracts.",
    )


def _ours(
    sides: _Sides, approaches: Sequence[str], time: tuple[str, Sequence[float | None]] | None = None
) -> ReportTable:
    columns = [
        ("approach", "Approach", Unit.TEXT),
        ("tpm", "TPM", Unit.COUNT),
        ("ratio", "Times the baseline", Unit.RATIO),
        ("p95_ms", "95 % of responses within", Unit.MILLISECONDS),
    ]
    rows: list[list[Cell]] = []
    for place, name in enumerate(approaches):
        one = sides.summaries.get(name)
        row: list[Cell] = [_title(sides, name)]
        row += [one.tpm, sides.ratio(name), one.p95_ms] if one else [None, None, None]
        if time is not None:
            row.append(time[1][place])
        rows.append(row)
    if time is not None:
        columns.append(("time_ms", time[0], Unit.MILLISECONDS))
    return parts.figures_table(
        "throughput",
        "Throughput and times",
        columns,
        rows,
        source=Source.EXACT,
        note="TPM is transactions a minute, the median of the repeats."
        + (
            " A commit's time is that in class Commit over all transactions, partly sampled."
            if time and time[0] == _MEAN_COMMIT
            else ""
        ),
    )


# ---- the results ------------------------------------------------------------------------


def _says(sides: _Sides, exhibits: Sequence[Exhibit]) -> list[str]:
    order = next(one for one in exhibits if one.id == "fig-12")
    said = []
    if order.missing:
        said.append("This run has not enough approaches to be set beside the paper.")
    else:
        ratios = [
            f"{_title(sides, name)} {ratio:.2f} (paper {_paper_ratio(name) or 0:.2f})"
            for name, ratio in sides.ratios((FLASH_CACHE, WAL, HOT, ALL)).items()
        ]
        said.append(f"Throughput as a multiple of the baseline: {', '.join(ratios)}.")
        said.append(order.checks[0].says)
    return said
