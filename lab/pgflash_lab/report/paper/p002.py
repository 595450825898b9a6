# SPDX-License-Identifier: PostgreSQL
"""Paper 002: a data warehouse's queries on disks and on flash.

DB time is work and wait, as in the paper's equation.  For a query, the driver measures both: the
processor time of the server's processes, and the time that sessions and parallel workers waited for
files.  For an approach, both come from the report, which includes every other wait, too.
"""

from collections.abc import Mapping, Sequence

from pgflash.model.awr import AwrReport, Cell, ReportTable, Unit
from pgflash.report.printed import figure
from pgflash_lab.model.exhibit import Chart, ChartForm, ChartSeries, Check, Exhibit, PaperPage
from pgflash_lab.model.paper import PaperExhibit
from pgflash_lab.model.run import Attempt, Run
from pgflash_lab.model.summary import BASELINE
from pgflash_lab.report.paper import checks, parts
from pgflash_lab.report.paper.p002_devices import over_time
from pgflash_lab.report.paper.p002_sides import (
    ALL,
    PAPER,
    PAPER_CLASSES,
    PAPER_EVENTS,
    RATIO_IS_SET,
    SHARE,
    Pair,
    Sides,
    common_queries,
)
from pgflash_lab.report.paper.p002_varied import pairs_exhibit, temporary

#: The queries that scan, about which the paper's figure says most.
SCANS = ("Q1", "Q3", "Q4", "Q5", "Q6", "Q7", "Q9", "Q10", "Q12", "Q13", "Q14", "Q15", "Q18", "Q19")

_WAITS_HERE = (
    "Oracle reads a large table past its buffers (direct path read); PostgreSQL's scans are "
    "plain reads of data files through a small ring of buffers."
)


def build(run: Run, reports: Mapping[str, AwrReport]) -> PaperPage:
    """Return the page."""
    sides = Sides(run, reports)
    exhibits = (
        _queries(sides),
        _equation(sides),
        _events(sides, "table-2", BASELINE),
        _classes(sides, "table-3", BASELINE),
        _events(sides, "table-4", ALL),
        _classes(sides, "table-5", ALL),
        over_time(sides, "fig-5", BASELINE),
        over_time(sides, "fig-6", ALL),
        pairs_exhibit(sides, "fig-7", "degree", "Degree of parallelism"),
        pairs_exhibit(sides, "fig-8", "scale_factor", "Scale factor"),
        temporary(sides),
    )
    return parts.page_of(PAPER, run, says=_says(sides), exhibits=exhibits)


# ---- figure 4: the queries --------------------------------------------------------------


def _queries(sides: Sides) -> Exhibit:
    pair = sides.whole()
    if pair is None:
        return parts.exhibit_of(
            PAPER, "fig-4", missing=sides.missing(BASELINE, ALL, reported=False) or "Not measured."
        )
    table = PAPER.exhibit("fig-4")
    array, flash = _elapsed(pair.array), _elapsed(pair.flash)
    names = common_queries([pair.array, pair.flash])
    times = {name: array[name] / max(flash[name], 1e-9) for name in names}
    scans = [name for name in names if name in SCANS]
    return parts.exhibit_of(
        PAPER,
        "fig-4",
        ours=_queries_table(pair, names),
        charts=(
            Chart(
                form=ChartForm.COLUMNS,
                title="Elapsed time of each query",
                unit="s",
                labels=tuple(names),
                series=(
                    ChartSeries(name="array", values=tuple(array[name] for name in names)),
                    ChartSeries(name="flash", values=tuple(flash[name] for name in names)),
                ),
            ),
            Chart(
                form=ChartForm.COLUMNS,
                title="How many times faster on flash",
                unit="times",
                labels=tuple(names),
                series=(ChartSeries(name="flash", values=tuple(times[name] for name in names)),),
            ),
        ),
        checks=checks.checks(
            checks.within(
                f"All {len(names)} queries, times faster on flash",
                paper=table.number("All queries", "Times faster on flash"),
                ours=_together(array, flash, names),
                factor=1.5,
            ),
            checks.within(
                f"The {len(scans)} that scan, times faster on flash",
                paper=table.number("All queries", "Times faster on flash"),
                ours=_together(array, flash, scans),
                factor=1.5,
            ),
            _gains_most(times),
            _same_answers(sides),
        ),
        reason=RATIO_IS_SET + " A query that looks rows up gains most, as a look-up waits for "
        "the disks' arms; which queries do is the planner's choice.",
    )


def _elapsed(attempt: Attempt) -> dict[str, float]:
    return {step.name: step.elapsed_s for step in attempt.steps}


def _together(
    array: Mapping[str, float], flash: Mapping[str, float], names: Sequence[str]
) -> float | None:
    """Return how many times faster these queries together are on flash."""
    on_flash = sum(flash[name] for name in names)
    return sum(array[name] for name in names) / on_flash if on_flash > 0 else None


def _queries_table(pair: Pair, names: Sequence[str]) -> ReportTable:
    """Return each query's times, work and waits on both."""

    def row(name: str) -> list[Cell]:
        cells: list[Cell] = [name]
        elapsed = [_elapsed(one)[name] for one in (pair.array, pair.flash)]
        cells += [*elapsed, elapsed[0] / max(elapsed[1], 1e-9)]
        for one in (pair.array, pair.flash):
            cells += [one.facts.get(f"{name}.{fact}") for fact in ("work_s", "wait_s")]
        array = pair.array.facts
        cells.append(array.get(f"{name}.read_bytes"))
        temp = [array.get(f"{name}.temp_{fact}_bytes") for fact in ("read", "write")]
        cells += temp
        return cells

    total: list[Cell] = ["all"]
    rows = [row(name) for name in names]
    for place in range(1, len(rows[0]) if rows else 1):
        numbers = [cells[place] for cells in rows]
        known = [one for one in numbers if isinstance(one, int | float)]
        total.append(sum(known) if len(known) == len(numbers) else None)
    if rows:
        total[3] = pair.times(names)
        rows.append(total)
    return parts.figures_table(
        "ours-fig-4",
        f"Queries at scale factor {pair.scale_factor:g}, degree of parallelism {pair.degree}",
        (
            ("query", "Query", Unit.TEXT),
            ("array_s", "Array", Unit.SECONDS),
            ("flash_s", "Flash", Unit.SECONDS),
            ("times", "Times faster", Unit.RATIO),
            ("array_work_s", "Work, array", Unit.SECONDS),
            ("array_wait_s", "Wait, array", Unit.SECONDS),
            ("flash_work_s", "Work, flash", Unit.SECONDS),
            ("flash_wait_s", "Wait, flash", Unit.SECONDS),
            ("read_bytes", "Read", Unit.BYTES),
            ("temp_read_bytes", "Temporary, read", Unit.BYTES),
            ("temp_write_bytes", "Temporary, written", Unit.BYTES),
        ),
        rows,
        note="Work and wait are of all processes of a query, so with parallel workers they are "
        "more than the elapsed time. What was read is of the run on the array.",
    )


def _gains_most(times: Mapping[str, float]) -> Check | None:
    """Check the paper's query with the largest gain: five times, and more than all together."""
    if "Q18" not in times:
        return None
    first = max(times, key=lambda name: times[name])
    said = PAPER.exhibit("fig-4").number("Query 18", "Times faster on flash") or 0
    figures = f"{said:g} times in the paper, {times['Q18']:.1f} here"
    return checks.is_true(
        first == "Q18",
        yes=f"Query 18 gains most, as in the paper: {figures}.",
        no=f"Query 18 gains most in the paper; here query {first[1:]} does, {times[first]:.1f} "
        f"times. Query 18: {figures}.",
    )


def _same_answers(sides: Sides) -> Check | None:
    """Check that all approaches with the same scale gave the same answer to each query."""
    marks: dict[tuple[str, str], set[str]] = {}
    count = 0
    for approach in sides.run.approaches:
        for attempt in sides.run.attempts:
            if attempt.approach == approach.name:
                size = sides.parameter(approach, "scale_factor")
                for step in attempt.steps:
                    if step.detail:
                        marks.setdefault((size, step.name), set()).add(step.detail)
                        count += 1
    if count <= len(marks):
        return None
    wrong = sorted({name for (_, name), found in marks.items() if len(found) > 1})
    return checks.is_true(
        not wrong,
        yes="Every approach gave the same answers.",
        no=f"Approaches gave different answers to {', '.join(wrong)}: one is wrong.",
    )


# ---- DB time = work + wait --------------------------------------------------------------


def _equation(sides: Sides) -> Exhibit:
    """Return the paper's equation: DB CPU and waits, of both sides."""
    paper = {name: _paper_parts(table) for name, table in PAPER_EVENTS.items()}
    ours = {name: _our_parts(sides.reports.get(name)) for name in (BASELINE, ALL)}
    rows: list[list[Cell]] = []
    for name, title in ((BASELINE, "array"), (ALL, "flash")):
        found = ours[name]
        if found is not None:
            work, wait = found
            rows.append([title, work + wait, work, wait, work / max(work + wait, 1e-9)])
    columns = (
        ("on", "Everything on", Unit.TEXT),
        ("db_time_s", "DB time", Unit.SECONDS),
        ("work_s", "Work (DB CPU)", Unit.SECONDS),
        ("wait_s", "Wait", Unit.SECONDS),
        ("work_share", "Work of DB time", Unit.SHARE),
    )
    theirs: list[list[Cell]] = [
        [title, work + wait, work, wait, work / (work + wait)]
        for name, title in ((BASELINE, "hard disks"), (ALL, "flash"))
        for work, wait in [paper[name]]
    ]
    shares = {
        name: (
            _percent(paper[name]),
            None if ours[name] is None else _percent(ours[name] or (0.0, 1.0)),
        )
        for name in (BASELINE, ALL)
    }
    return Exhibit(
        id="db-time",
        label="Equation",
        title="DB time = work time + wait time",
        paper=parts.figures_table(
            "paper-db-time", "From its tables 2 and 4", columns, theirs, source=None
        ),
        ours=parts.figures_table("ours-db-time", "From the servers' own reports", columns, rows),
        checks=checks.checks(
            checks.same_direction(
                "Work's share of DB time",
                paper=(shares[BASELINE][0], shares[ALL][0]),
                ours=(shares[BASELINE][1], shares[ALL][1]),
                unit="%",
            ),
            checks.within(
                "Work of DB time on the array",
                paper=shares[BASELINE][0],
                ours=shares[BASELINE][1],
                unit="%",
            ),
            checks.within(
                "Work of DB time on flash", paper=shares[ALL][0], ours=shares[ALL][1], unit="%"
            ),
        ),
        reason=RATIO_IS_SET,
        missing=sides.missing(BASELINE, ALL),
        errata=(
            "The text says 75.2 % of work on flash, its table 75.0 %.",
            "On flash its classes come to 101.0 % of DB time (table 5).",
        ),
    )


def _paper_parts(table: PaperExhibit) -> tuple[float, float]:
    """Return work and wait in seconds; DB time follows from DB CPU and its printed share."""
    work = table.number("DB CPU", "Total Wait Time (sec)") or 0.0
    share = table.number("DB CPU", SHARE) or 100.0
    return work, 100 * work / share - work


def _our_parts(report: AwrReport | None) -> tuple[float, float] | None:
    """Return work and wait of a report in seconds."""
    classes = parts.table_of(report, "wait-classes")
    total = parts.number_of(classes, "DB time", "total_s")
    work = parts.number_of(classes, "CPU", "total_s")
    if total is None or work is None:
        return None
    return work, total - work


def _percent(both: tuple[float, float]) -> float:
    work, wait = both
    return 100 * work / max(work + wait, 1e-9)


# ---- tables 2 to 5 ----------------------------------------------------------------------


def _events(sides: Sides, table_id: str, approach: str) -> Exhibit:
    table = PAPER.exhibit(table_id)
    report = sides.reports.get(approach)
    return parts.exhibit_of(
        PAPER,
        table_id,
        ours=parts.top_events(report),
        checks=checks.checks(
            checks.same_first(
                "The class of the first event",
                paper=table.rows[0][-1] or "CPU",
                ours=parts.first_class(report),
            ),
            checks.within(
                "DB CPU, of DB time",
                paper=table.number("DB CPU", SHARE),
                ours=parts.event_percent(report, "DB CPU"),
                unit="%",
            ),
            checks.within(
                "Reads of tables, of DB time",
                paper=_paper_reads(table),
                ours=_reads_percent(report),
                unit="%",
            ),
        ),
        reason=f"{RATIO_IS_SET} {_WAITS_HERE}",
        missing=sides.missing(approach),
    )


def _paper_reads(table: PaperExhibit) -> float:
    """Return the paper's share of all kinds of table reads."""
    names = ("Direct Path Read", "DB File Sequential Read", "DB File Parallel Read",
             "DB File Scattered Read")  # fmt: skip
    present = {row[0] for row in table.rows}
    return sum(table.number(name, SHARE) or 0.0 for name in names if name in present)


def _reads_percent(report: AwrReport | None) -> float | None:
    """Return our share of reads of data files."""
    table = parts.table_of(report, "top-events")
    if table is None:
        return None
    found = [
        parts.event_percent(report, str(row.cells[0])) or 0.0
        for row in table.rows
        if str(row.cells[0]).startswith("data file read")
    ]
    return sum(found) if found else None


def _classes(sides: Sides, table_id: str, approach: str) -> Exhibit:
    table = PAPER.exhibit(table_id)
    report = sides.reports.get(approach)
    other = ALL if approach == BASELINE else BASELINE
    return parts.exhibit_of(
        PAPER,
        table_id,
        ours=parts.wait_classes(report),
        checks=checks.checks(
            checks.within(
                "User I/O, of DB time",
                paper=table.number("User I/O", SHARE),
                ours=parts.class_percent(report, "User I/O"),
                unit="%",
            ),
            checks.same_direction(
                "From disks to flash, User I/O's share of DB time",
                paper=(
                    PAPER_CLASSES[BASELINE].number("User I/O", SHARE),
                    PAPER_CLASSES[ALL].number("User I/O", SHARE),
                ),
                ours=(
                    parts.class_percent(sides.reports.get(BASELINE), "User I/O"),
                    parts.class_percent(sides.reports.get(ALL), "User I/O"),
                ),
                unit="%",
            ),
        ),
        reason=f"{RATIO_IS_SET} {_WAITS_HERE}",
        missing=sides.missing(approach, other),
    )


def _says(sides: Sides) -> list[str]:
    """Return the results in words."""
    pair = sides.whole()
    if pair is None:
        return []
    names = common_queries([pair.array, pair.flash])
    said = [
        f"{len(names)} queries took {figure(pair.array_s(names))} s on the array and "
        f"{figure(pair.flash_s(names))} s on flash: {pair.times(names):.1f} times faster "
        "(paper: 2.5)."
    ]
    scans = [name for name in names if name in SCANS]
    if scans and len(scans) < len(names):
        said.append(f"The {len(scans)} that scan are {pair.times(scans):.1f} times faster.")
    return said
