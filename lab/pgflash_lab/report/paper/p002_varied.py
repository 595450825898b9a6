# SPDX-License-Identifier: PostgreSQL
"""Paper 002, figures 7 and 8, and temporary files: the effect of varying one thing."""

from collections.abc import Sequence

from pgflash.model.awr import Cell, Unit
from pgflash_lab.model.exhibit import Chart, ChartForm, ChartSeries, Check, Exhibit
from pgflash_lab.model.run import Attempt
from pgflash_lab.model.summary import BASELINE
from pgflash_lab.report.paper import checks, parts
from pgflash_lab.report.paper.p002_sides import (
    ALL,
    PAPER,
    PAPER_EVENTS,
    RATIO_IS_SET,
    SHARE,
    TEMP,
    Pair,
    Sides,
    common_queries,
    seconds_of,
)

_TEMP_EVENTS = ("Direct Path Read Temp", "Direct Path Write Temp")


def pairs_exhibit(sides: Sides, figure: str, varied: str, title: str) -> Exhibit:
    """Return the pairs that differ in only one parameter, side by side."""
    pairs = sides.series(varied)
    missing = sides.missing(BASELINE, ALL, reported=False)
    if not missing and len(pairs) < 2:
        missing = f"Not measured: this run has one {title.lower()} on both array and flash."
    if missing:
        return parts.exhibit_of(PAPER, figure, missing=missing)
    names = common_queries(side for one in pairs for side in (one.array, one.flash))
    values = [f"{getattr(one, varied):g}" for one in pairs]
    if varied == "degree":
        # "50 %" less time is half the time.
        less = PAPER.exhibit(figure).number("All degrees of parallelism", "Less time on flash")
        paper_times: float | None = 100 / (100 - (less or 50.0))
    else:
        paper_times = PAPER.exhibit(figure).number("100, 300 and 1000 GB", "Times faster on flash")
    return parts.exhibit_of(
        PAPER,
        figure,
        ours=parts.figures_table(
            f"ours-{figure}",
            f"Elapsed time of {len(names)} queries",
            (
                (varied, title, Unit.TEXT),
                ("array_s", "Array", Unit.SECONDS),
                ("flash_s", "Flash", Unit.SECONDS),
                ("times", "Times faster", Unit.RATIO),
                ("less", "Less time on flash", Unit.SHARE),
            ),
            [
                [
                    value,
                    one.array_s(names),
                    one.flash_s(names),
                    one.times(names),
                    1 - 1 / one.times(names),
                ]
                for value, one in zip(values, pairs, strict=True)
            ],
        ),
        charts=(
            Chart(
                form=ChartForm.BARS,
                title=f"Elapsed time by {title.lower()}",
                unit="s",
                labels=tuple(values),
                series=(
                    ChartSeries(name="array", values=tuple(one.array_s(names) for one in pairs)),
                    ChartSeries(name="flash", values=tuple(one.flash_s(names) for one in pairs)),
                ),
            ),
        ),
        checks=checks.checks(
            *(
                checks.within(
                    f"{title} {value}, times faster on flash",
                    paper=paper_times,
                    ours=one.times(names),
                )
                for value, one in zip(values, pairs, strict=True)
            ),
            _faster_everywhere(pairs, names, values, title),
            _scales(pairs, names) if varied == "degree" else None,
        ),
        reason=RATIO_IS_SET + " A small machine has few processors for parallel workers.",
    )


def _faster_everywhere(
    pairs: Sequence[Pair], names: Sequence[str], values: Sequence[str], title: str
) -> Check:
    slower = [value for value, one in zip(values, pairs, strict=True) if one.times(names) <= 1]
    return checks.is_true(
        not slower,
        yes=f"Flash is faster at each {title.lower()}, as in the paper.",
        no=f"Flash is not faster at {title.lower()} {', '.join(slower)}.",
    )


def _scales(pairs: Sequence[Pair], names: Sequence[str]) -> Check:
    """Check that flash gains from more processes, as the paper's figure shows up to 20."""
    first, best = pairs[0], min(pairs, key=lambda one: one.flash_s(names))
    figures = f"{first.flash_s(names):.0f} s at {first.degree}, {best.flash_s(names):.0f} s at"
    return checks.is_true(
        best is not first,
        yes=f"Queries on flash become faster with more processes, as in the paper: {figures} "
        f"{best.degree}.",
        no="Queries on flash become no faster with more processes here; in the paper they do up "
        "to 20, on 16 cores.",
    )


def temporary(sides: Sides) -> Exhibit:
    """Return the gain of moving only the temporary files; the paper gives only their share."""
    missing = sides.missing(BASELINE, TEMP, reported=False)
    found = [sides.middles[name] for name in (BASELINE, TEMP, ALL) if name in sides.middles]
    names = common_queries(found)
    table = PAPER.exhibit("table-2")
    share = sum(table.number(name, SHARE) or 0.0 for name in _TEMP_EVENTS)
    columns = (
        ("event", "Event", Unit.TEXT),
        ("disk", "Hard disks", Unit.SHARE),
        ("flash", "Flash", Unit.SHARE),
    )
    theirs: list[list[Cell]] = [
        [name, *((one.number(name, SHARE) or 0.0) / 100 for one in PAPER_EVENTS.values())]
        for name in _TEMP_EVENTS
    ]
    ours: list[list[Cell]] = [
        [
            _titles(sides).get(one.approach, one.approach),
            seconds_of(one, names),
            *(
                _fact(one, names, fact)
                for fact in ("temp_write_bytes", "temp_read_bytes", "temp_write_s", "temp_read_s")
            ),
            _temp_share(one, names),
        ]
        for one in found
    ]
    return Exhibit(
        id="temp",
        label="Tables 2 and 4",
        title="Temporary files: what spilled, and what their place brings",
        paper=parts.figures_table(
            "paper-temp", "Of DB time, in its tables 2 and 4", columns, theirs, source=None
        ),
        ours=parts.figures_table(
            "ours-temp",
            f"Temporary files and elapsed time of {len(names)} queries",
            (
                ("approach", "Approach", Unit.TEXT),
                ("duration_s", "Elapsed", Unit.SECONDS),
                ("written", "Written", Unit.BYTES),
                ("read", "Read", Unit.BYTES),
                ("write_s", "Waits for writes", Unit.SECONDS),
                ("read_s", "Waits for reads", Unit.SECONDS),
                ("share", "Of work and wait", Unit.SHARE),
            ),
            ours,
        ),
        checks=() if missing else _temp_checks(found[0], found[1], names, share),
        reason="How much spills is set by work_mem and the plans; what is written to an array "
        "with a write cache waits little until the cache is full.",
        missing=missing,
    )


def _titles(sides: Sides) -> dict[str, str]:
    return {one.name: one.title for one in sides.run.approaches}


def _fact(attempt: Attempt, names: Sequence[str], fact: str) -> float | None:
    """Return the sum of a figure over these queries; None if one of them lacks it."""
    found = [attempt.facts.get(f"{name}.{fact}") for name in names]
    return None if None in found or not found else sum(one or 0.0 for one in found)


def _temp_share(attempt: Attempt, names: Sequence[str]) -> float | None:
    """Return the part of work and wait spent waiting for temporary files."""
    work, wait, reads, writes = (
        _fact(attempt, names, fact) for fact in ("work_s", "wait_s", "temp_read_s", "temp_write_s")
    )
    if work is None or wait is None or reads is None or writes is None or work + wait <= 0:
        return None
    return (reads + writes) / (work + wait)


def _temp_checks(
    base: Attempt, moved: Attempt, names: Sequence[str], paper_share: float
) -> tuple[Check, ...]:
    share, after = _temp_share(base, names), _temp_share(moved, names)
    before_s, after_s = seconds_of(base, names), seconds_of(moved, names)
    faster = after_s < before_s
    figures = f"{before_s:.0f} s before, {after_s:.0f} s after"
    return checks.checks(
        checks.within(
            "Waits for temporary files on disks, of DB time",
            paper=paper_share,
            ours=None if share is None else 100 * share,
            unit="%",
            factor=4,
        ),
        None
        if share is None or after is None
        else checks.is_true(
            after < share,
            yes=f"On flash temporary files take {100 * after:.1f} % of work and wait instead of "
            f"{100 * share:.1f} %.",
            no=f"On flash temporary files take {100 * after:.1f} % of work and wait, on disks "
            f"{100 * share:.1f} %.",
        ),
        checks.is_true(
            faster,
            yes=f"With temporary files on flash alone the queries are faster: {figures}.",
            no=f"With temporary files on flash alone the queries are not faster: {figures}.",
        ),
    )
