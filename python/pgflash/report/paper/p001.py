# SPDX-License-Identifier: PostgreSQL
"""Paper 001: what a flash cache brings a load that hardly writes, and its effect on the host.

A run has one approach without a cache and several with it: of other sizes, over several files, with
tables that are kept.  The paper's tables are compared with the largest cache in one file; the
others have a table of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgflash.model.awr import AwrReport, Cell, ReportTable, Unit, plain
from pgflash.model.exhibit import Chart, ChartForm, ChartSeries, Exhibit, PaperPage
from pgflash.model.paper import read_paper
from pgflash.model.run import Run
from pgflash.model.summary import Summary
from pgflash.report.paper import checks, p001_sizes, parts
from pgflash.report.paper.p001_host import MACHINE, Pair, figures_over_time, host_exhibits

PAPER = read_paper("001")

_DISK, _FLASH = "Hard drives", "Flash cache"
_SEQUENTIAL = "db file sequential read"
_CACHE_READ = "db flash cache single block phys read"
_OUR_DISK_READ, _OUR_CACHE_READ = "data file read, disk", "data file read, flash cache"


def build(run: Run, reports: Mapping[str, AwrReport]) -> PaperPage:
    """Return the page."""
    pair = Pair.of(run, reports)
    exhibits = (
        _results(pair),
        *host_exhibits(pair, cached=False),
        _events_disk(pair),
        *host_exhibits(pair, cached=True),
        _events_flash(pair),
        *figures_over_time(pair),
        _fig_8(pair),
        _statistics(pair),
        p001_sizes.sizes_exhibit(PAPER, run),
    )
    return parts.page_of(PAPER, run, says=_says(pair), exhibits=exhibits)


# ---- results ----------------------------------------------------------------------------


def _tps(one: Summary | None) -> float | None:
    return one.tpm / 60 if one else None


def _response_s(one: Summary | None) -> float | None:
    return one.middle.latency.mean_ms / 1000 if one else None


def _results(pair: Pair) -> Exhibit:
    data = PAPER.table("tps")
    tps = data.number("Average TPS", _DISK), data.number("Average TPS", _FLASH)
    response = tuple(data.number("Average response time, s", column) for column in (_DISK, _FLASH))
    own_tps = _tps(pair.base), _tps(pair.cache)
    own_response = _response_s(pair.base), _response_s(pair.cache)
    return parts.exhibit_of(
        PAPER,
        "tps",
        ours=_results_table(pair),
        charts=(_tps_chart(pair),),
        checks=checks.checks(
            checks.same_direction(
                "The number of transactions a second", paper=(tps[0], tps[1]), ours=own_tps
            ),
            checks.same_direction(
                "The mean response time",
                paper=(response[0], response[1]),
                ours=own_response,
                unit="s",
            ),
            checks.within(
                "With the cache so many times the transactions a second",
                paper=_over(tps[1], tps[0]),
                ours=_over(own_tps[1], own_tps[0]),
            ),
            checks.within(
                "With the cache a response takes so much of its time before",
                paper=_over(response[1], response[0]),
                ours=_over(own_response[1], own_response[0]),
            ),
        ),
        reason="The paper's clients think between transactions (its TPS times its response time is "
        "72 and 39 clients), so that faster responses bring few more of them; ours do not, and "
        "all of the time that is saved becomes throughput.",
        missing=pair.missing,
    )


def _results_table(pair: Pair) -> ReportTable:
    rows: list[Sequence[Cell]] = [
        (
            one.approach.title,
            _tps(one),
            _response_s(one),
            one.read_ms,
            one.hit_ratio,
        )
        for one in pair.both()
    ]
    return parts.figures_table(
        "results",
        "Results",
        [
            ("approach", "Approach", Unit.TEXT),
            ("tps", "TPS", Unit.PER_SECOND),
            ("response_s", "Mean response", Unit.SECONDS),
            ("read_ms", "Mean read", Unit.MILLISECONDS),
            ("hit_ratio", "Cache hits", Unit.SHARE),
        ],
        rows,
    )


def _tps_chart(pair: Pair) -> Chart:
    data = PAPER.table("tps")
    return Chart(
        form=ChartForm.BARS,
        title="Transactions a second",
        unit="times those without the cache",
        labels=(_DISK, _FLASH),
        series=(
            ChartSeries(
                name="paper",
                values=(
                    1.0,
                    _over(data.number("Average TPS", _FLASH), data.number("Average TPS", _DISK)),
                ),
                of_paper=True,
            ),
            ChartSeries(name="here", values=(1.0, _over(_tps(pair.cache), _tps(pair.base)))),
        ),
    )


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


# ---- events -----------------------------------------------------------------------------


def _events_disk(pair: Pair) -> Exhibit:
    data = PAPER.table("events-disk")
    report = pair.report(pair.base)
    return parts.exhibit_of(
        PAPER,
        "events-disk",
        ours=parts.top_events(report, rows=5),
        checks=checks.checks(
            checks.same_first(
                "The class of the first event", paper="User I/O", ours=parts.first_class(report)
            ),
            checks.within(
                "User I/O, of DB time",
                paper=parts.paper_class_share(data, "User I/O", column="% DB Time"),
                ours=parts.class_percent(report, "User I/O"),
                unit="%",
                factor=1.25,
            ),
        ),
        reason="The paper's load hardly writes, so nearly all of its DB time is single-block "
        "reads; what a load commits shows as Commit.",
        missing=pair.missing or parts.why_missing(pair.run, pair.reports, _name(pair.base)),
    )


def _events_flash(pair: Pair) -> Exhibit:
    data, before = PAPER.table("events-flash"), PAPER.table("events-disk")
    base, cache = (
        parts.table_of(pair.report(one), "top-events") for one in (pair.base, pair.cache)
    )
    own_ms = tuple(parts.number_of(table, _OUR_DISK_READ, "mean_ms") for table in (base, cache))
    fast, slow = parts.number_of(cache, _OUR_CACHE_READ, "mean_ms"), own_ms[0]
    mean = "Avg wait (ms)"
    return parts.exhibit_of(
        PAPER,
        "events-flash",
        ours=parts.top_events(pair.report(pair.cache), rows=5),
        checks=checks.checks(
            checks.same_first(
                "What is read more often with the cache",
                paper="flash",
                ours=_more_often(cache),
            ),
            checks.same_direction(
                "A read from disk takes time that",
                paper=(before.number(_SEQUENTIAL, mean), data.number(_SEQUENTIAL, mean)),
                ours=(own_ms[0], own_ms[1]),
                unit="ms",
            ),
            checks.same_direction(
                "The share of DB time in reads from disk",
                paper=(
                    before.number(_SEQUENTIAL, "% DB Time"),
                    data.number(_SEQUENTIAL, "% DB Time"),
                ),
                ours=(_percent(base), _percent(cache)),
                unit="%",
            ),
            checks.within(
                "A read from the loaded disks took so many times as long as one from flash",
                paper=_over(before.number(_SEQUENTIAL, mean), data.number(_CACHE_READ, mean)),
                ours=_over(slow, fast),
                factor=4,
            ),
        ),
        reason="The paper's disks had a long queue (63 ms a read) and its card none; with fewer "
        "clients the queue is shorter. A read from emulated flash is never faster than the "
        "wake-up of a process.",
        missing=pair.missing
        or parts.why_missing(pair.run, pair.reports, _name(pair.base), _name(pair.cache)),
    )


def _name(one: Summary | None) -> str:
    return one.approach.name if one else ""


def _percent(table: ReportTable | None) -> float | None:
    share = parts.number_of(table, _OUR_DISK_READ, "share")
    return None if share is None else 100 * share


def _more_often(table: ReportTable | None) -> str | None:
    flash = parts.number_of(table, _OUR_CACHE_READ, "waits")
    disk = parts.number_of(table, _OUR_DISK_READ, "waits")
    if flash is None and disk is None:
        return None
    return "flash" if (flash or 0) > (disk or 0) else "disk"


# ---- further results, and the cache's own account ---------------------------------------


def _fig_8(pair: Pair) -> Exhibit:
    data, flash = PAPER.table("events-disk"), PAPER.table("events-flash")
    mean = "Avg wait (ms)"
    waits = [data.number(_SEQUENTIAL, "Waits"), flash.number(_CACHE_READ, "Waits")]
    paper_ms = [data.number(_SEQUENTIAL, mean), flash.number(_CACHE_READ, mean)]
    own_ms = [one.read_ms if one else None for one in (pair.base, pair.cache)]
    own_reads = [
        one.middle.reads.blocks / max(one.middle.cpu.elapsed_s, 1e-9) if one else None
        for one in (pair.base, pair.cache)
    ]
    return parts.exhibit_of(
        PAPER,
        "fig-8",
        ours=_results_table(pair),
        charts=(
            Chart(
                form=ChartForm.BARS,
                title="Mean wait of the most frequent read (here of all reads)",
                unit="ms",
                labels=(_DISK, _FLASH),
                series=(
                    ChartSeries(name="paper", values=tuple(paper_ms), of_paper=True),
                    ChartSeries(name="here", values=tuple(own_ms)),
                ),
            ),
        ),
        checks=checks.checks(
            checks.same_direction(
                "The mean wait of a read",
                paper=(paper_ms[0], paper_ms[1]),
                ours=(own_ms[0], own_ms[1]),
                unit="ms",
            ),
            checks.is_true(
                own_reads[1] > own_reads[0],
                yes=f"More is read with the cache than without: {_over(waits[1], waits[0]):.1f} "
                f"times as many reads in the paper, {own_reads[1] / own_reads[0]:.1f} times here.",
                no=f"With the cache the paper has {_over(waits[1], waits[0]):.1f} times as many "
                f"reads, and here {own_reads[1] / own_reads[0]:.1f} times.",
            )
            if own_reads[0] and own_reads[1]
            else None,
        ),
        reason=MACHINE,
        missing=pair.missing,
    )


def _statistics(pair: Pair) -> Exhibit:
    report = pair.report(pair.cache)
    counters = parts.table_of(report, "flash-cache")
    ours = _as_oracle_names_them(counters) if counters else None
    own: dict[str, float] = {}
    if ours is not None:
        for name, value in zip(ours.values("oracle_name"), ours.values("total"), strict=True):
            if isinstance(value, int | float):
                own[str(name)] = float(value)
    theirs = PAPER.table("flash-cache").numbers("Value")
    evictions = [name for name in theirs if "eviction" in name]
    corrupt = "flash cache insert skip: corrupt"
    return parts.exhibit_of(
        PAPER,
        "flash-cache",
        ours=ours,
        checks=checks.checks(
            checks.same_first(
                "The most frequent reason to give up a slot",
                paper=max(evictions, key=lambda name: theirs[name]).partition(": ")[2],
                ours=max(evictions, key=lambda name: own.get(name, 0.0)).partition(": ")[2],
            )
            if any(own.get(name) for name in evictions)
            else None,
            checks.is_true(
                own.get(corrupt, 0.0) == theirs[corrupt],
                yes="No block was refused as corrupt, in neither.",
                no=f"{own.get(corrupt, 0.0):,.0f} blocks were refused as corrupt here, none in the "
                "paper.",
            )
            if own
            else None,
            checks.same_first(
                "Whether the writer was too slow to take a block to flash",
                paper=_ever(theirs, _OVERLOADED),
                ours=_ever(own, _OVERLOADED),
            )
            if own
            else None,
        ),
        reason="Oracle's cache takes what leaves the buffer cache, so it is asked about every such "
        "block and finds most of them there (insert skip: exists); ours takes what was missed, and "
        "is not asked again. Where a block changes, Oracle's copy is thrown away, ours is written "
        "anew (updates).",
        missing=pair.missing or parts.why_missing(pair.run, pair.reports, _name(pair.cache)),
    )


def _as_oracle_names_them(counters: ReportTable) -> ReportTable:
    """Return the counters that Oracle also has, under its names."""
    columns = ("oracle_name", "total", "per_s")
    found = parts.cut(counters, columns=columns)
    return replace(
        found,
        title="The counters that both have",
        rows=tuple(row for row in found.rows if plain(row.cells[0])),
        key=("oracle_name",),
    )


_OVERLOADED = "flash cache insert skip: DBWR overloaded"


def _ever(counts: Mapping[str, float], name: str) -> str:
    return "yes" if counts.get(name) else "no"


def _says(pair: Pair) -> list[str]:
    if pair.base is None or pair.cache is None:
        return [pair.missing]
    before, after = pair.base.tpm / 60, pair.cache.tpm / 60
    data = PAPER.table("tps")
    theirs = _over(data.number("Average TPS", _FLASH), data.number("Average TPS", _DISK)) or 0.0
    return [
        f"With the flash cache the server did {_over(after, before) or 0:.2f} times the "
        f"transactions a second, {after:,.0f} against {before:,.0f} "
        f"({pair.cache.approach.title}); the paper has {theirs:.2f} times."
    ]
