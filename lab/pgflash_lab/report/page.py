# SPDX-License-Identifier: PostgreSQL
"""A run's report: one HTML file that opens offline.

One sentence and the picture of the result come first, then what weakens it, then tables with their
charts.  The page loads nothing and runs no script.
All text passes through Jinja2's autoescape, because names come from a stored run that anyone may
have written.
"""

from collections.abc import Iterator, Mapping, Sequence

from pgflash.analyze.grid import figure, row, text
from pgflash.model.awr import Cell, Column, ReportTable, Row, Source, Unit
from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.waits import WaitClass
from pgflash.model.words import figure as number
from pgflash.model.words import whole
from pgflash.report.colours import SOURCES
from pgflash.report.drawing import figures_of, patterns
from pgflash.report.environment import environment
from pgflash.report.shown import Shown, show
from pgflash_lab.model.paper import paper_figure
from pgflash_lab.model.run import Attempt, Run
from pgflash_lab.model.summary import (
    Summary,
    base_of,
    class_profile,
    is_failover,
    ratio,
    summarize,
    wait_profile,
)
from pgflash_lab.report import failover, sentences
from pgflash_lab.report.page_conditions import (
    Section,
    cpu,
    devices,
    marked,
    paper,
    repeats,
    settings,
    without_empty_columns,
)

#: The paper whose ratios are printed beside ours.
_OF_RATIOS = "000"
#: Events in a table of top events, as in the papers.
TOP_EVENTS = 10


#: By workload: what counts as a transaction.
_WHAT_COUNTS = {
    "oltp": "TPM is transactions a minute, NOPM new orders a minute. The load is TPC-C-like; this "
    "is not a TPC result.",
    "warehouse": "A transaction is a query; TPM is queries a minute. The queries are TPC-H-like; "
    "this is not a TPC result.",
    "micro": "A transaction is one read or write of the benchmark; TPM is those a minute.",
    "failover": "TPM is transactions a minute of the whole measured time, with the outage, NOPM "
    "new orders a minute. The load is TPC-C-like; this is not a TPC result.",
    "pgbench": "TPM is transactions a minute: runs of a script.",
    "load": "A transaction is a batch of rows, TPM batches a minute; what counts is how long the "
    "whole load took.",
}


def render_page(run: Run, *, links: Sequence[tuple[str, str]] = ()) -> str:
    """Return the report as HTML; links (title, relative address) lead to pages beside it."""
    summaries = summarize(run)
    sections = [section for section in _sections(run, summaries, links) if section is not None]
    page: str = (
        environment("pgflash_lab.report")
        .get_template("report.html.j2")
        .render(
            run=run,
            headline=sentences.headline(run, summaries),
            opening=[drawn for section in sections for drawn in section.opening],
            cautions=sentences.cautions(run, summaries),
            sections=sections,
            patterns=patterns(drawn for section in sections for drawn in section.drawn()),
        )
    )
    return page


def _sections(
    run: Run, summaries: Sequence[Summary], links: Sequence[tuple[str, str]]
) -> Iterator[Section | None]:
    """Yield the page's parts in order; None if there is nothing to show."""
    if summaries:
        yield failover.section(run, summaries)
        yield _throughput(run, summaries)
        yield _latency(summaries)
        yield _over_time(summaries)
        yield _sources(summaries)
        yield _hit_ratio(summaries)
        yield _waits(summaries)
        yield _reports(links)
        yield cpu(run, summaries)
        yield repeats(run)
        yield paper() if run.paper == _OF_RATIOS else None
    yield devices(run, summaries)
    yield settings(run)


def _throughput(run: Run, summaries: Sequence[Summary]) -> Section:
    names = [summary.approach.name for summary in summaries]
    ratios = {name: ratio(summaries, name) for name in names}
    figures = {name: paper_figure(name) for name in names if run.paper == _OF_RATIOS}
    printed = {name: found.ratio for name, found in figures.items() if found is not None}
    table = _medians(summaries, ratios, printed)
    chart = _multiples(summaries, ratios, printed)
    says = [
        _WHAT_COUNTS.get(summaries[0].middle.workload, ""),
        "Figures are medians over the repeats, which are the small circles.",
        sentences.ceiling(summaries),
    ]
    return Section(
        id="throughput",
        title="Throughput",
        says=[sentence for sentence in says if sentence],
        # That of a failover opens with the time it took.
        opening=() if is_failover(run) else figures_of([chart], about=table.title),
        tables=[show(without_empty_columns(table))],
    )


def _medians(
    summaries: Sequence[Summary], ratios: Mapping[str, float | None], printed: Mapping[str, float]
) -> ReportTable:
    """Return each approach's medians; PRINTED are the paper's ratios."""
    return ReportTable(
        id="by-approach",
        title="Medians of the repeats",
        columns=(
            text("approach", "Approach"),
            figure("tpm", "TPM", Unit.COUNT),
            figure("nopm", "NOPM", Unit.COUNT),
            figure("took", "Took", Unit.SECONDS),
            figure("ratio", "Ratio", Unit.RATIO),
            figure("paper_ratio", "Paper's ratio", Unit.RATIO),
            figure("reads", "Reads", Unit.PER_TRANSACTION),
            figure("read_ms", "Mean read", Unit.MILLISECONDS),
            figure("hit_ratio", "Cache hit ratio", Unit.SHARE),
            figure("server_cpu_ms", "Server CPU", Unit.MILLISECONDS_PER_TRANSACTION),
        ),
        rows=tuple(
            row(
                marked(one),
                one.tpm,
                one.nopm,
                one.duration_s or None,
                ratios[one.approach.name],
                printed.get(one.approach.name),
                one.reads_per_transaction,
                one.read_ms,
                one.hit_ratio,
                one.server_cpu_ms_per_transaction,
            )
            for one in summaries
        ),
    )


def _multiples(
    summaries: Sequence[Summary], ratios: Mapping[str, float | None], printed: Mapping[str, float]
) -> Chart:
    """Return each approach's throughput as a multiple of the baseline's, beside the paper's."""
    tpm = {summary.approach.name: summary.tpm for summary in summaries}
    drawn = [(s, value) for s in summaries if (value := ratios[s.approach.name]) is not None]
    papers = [printed.get(s.approach.name) for s, _ in drawn]
    return Chart(
        form=ChartForm.BARS,
        title="Throughput, as a multiple of the baseline",
        narrow=False,
        labels=tuple(s.approach.title for s, _ in drawn),
        approaches=tuple(s.approach.name for s, _ in drawn),
        series=(
            ChartSeries(
                name="Here",
                values=tuple(value for _, value in drawn),
                texts=tuple(f"{number(value)}× · {number(s.tpm)} TPM" for s, value in drawn),
                dots=tuple(
                    tuple(one.tpm / tpm[base_of(s.approach)] for one in s.attempts)
                    for s, _ in drawn
                ),
            ),
            ChartSeries(
                name="The paper",
                of_others=True,
                values=tuple(papers),
                texts=tuple(
                    "" if one is None else f"{number(one)}× in the paper" for one in papers
                ),
            ),
        )[: 2 if printed else 1],
    )


def _latency(summaries: Sequence[Summary]) -> Section:
    percentiles = [("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms")]
    table = ReportTable(
        id="percentiles",
        title="Response time of all transactions",
        columns=(
            text("approach", "Approach"),
            *(figure(name, title, Unit.MILLISECONDS) for title, name in percentiles),
            figure("max_ms", "Max", Unit.MILLISECONDS),
        ),
        rows=tuple(
            row(marked(s), s.p50_ms, s.p95_ms, s.p99_ms, max(a.latency.max_ms for a in s.attempts))
            for s in summaries
        ),
    )
    chart = Chart(
        form=ChartForm.RANGES,
        title="",
        unit="ms",
        logarithmic=True,
        labels=tuple(s.approach.title for s in summaries),
        approaches=tuple(s.approach.name for s in summaries),
        series=tuple(
            ChartSeries(name=title, values=tuple(getattr(s, name) for s in summaries))
            for title, name in percentiles
        ),
    )
    tables = [show(table, [chart])]
    kinds = ReportTable(
        id="by-transaction",
        title="By transaction",
        columns=(
            text("approach", "Approach"),
            text("transaction", "Transaction"),
            figure("count", "Count", Unit.COUNT),
            figure("mean_ms", "Mean", Unit.MILLISECONDS),
            *(figure(name, title, Unit.MILLISECONDS) for title, name in percentiles),
            figure("max_ms", "Max", Unit.MILLISECONDS),
        ),
        rows=tuple(
            row(
                s.approach.title,
                one.transaction,
                one.count,
                one.mean_ms,
                *(getattr(one, name) for _, name in percentiles),
                one.max_ms,
            )
            for s in summaries
            for one in s.middle.by_transaction
        ),
    )
    if kinds.rows:
        tables.append(show(kinds, folded=True))
    return Section(
        id="latency",
        title="Response time",
        says=["The time that a transaction takes as its client sees it, commit included."],
        tables=tables,
    )


def _over_time(summaries: Sequence[Summary]) -> Section | None:
    shown = [summary for summary in summaries if summary.middle.seconds]
    if not shown:
        return None
    tpm = {s.approach.name: {x.at_s: 60 * x.transactions for x in s.middle.seconds} for s in shown}
    p95 = {s.approach.name: {x.at_s: x.p95_ms for x in s.middle.seconds} for s in shown}
    return Section(
        id="time",
        title="Over time",
        says=["The repeat nearest to each approach's median, second by second."],
        tables=[
            _by_second(
                shown,
                tpm,
                table_id="tpm-by-second",
                title="Transactions a minute",
                unit=Unit.COUNT,
            ),
            _by_second(
                shown,
                p95,
                table_id="p95-by-second",
                title="Response time, 95th percentile",
                unit=Unit.MILLISECONDS,
            ),
        ],
    )


def _by_second(
    summaries: Sequence[Summary],
    values: Mapping[str, Mapping[int, float]],
    *,
    table_id: str,
    title: str,
    unit: Unit,
) -> Shown:
    """Return a value of each approach by second, with its lines; the rows are folded."""
    seconds = sorted({at_s for one in values.values() for at_s in one})
    columns: list[Column] = [figure("at_s", "Second", Unit.COUNT)]
    columns += [figure(s.approach.name, s.approach.title, unit) for s in summaries]
    rows: list[Row] = []
    for at_s in seconds:
        cells: list[Cell] = [values[s.approach.name].get(at_s) for s in summaries]
        rows.append(row(at_s, *cells))
    chart = Chart(
        form=ChartForm.LINES,
        title="",
        unit={Unit.SHARE: "share", Unit.MILLISECONDS: "ms"}.get(unit, ""),
        logarithmic=unit is Unit.MILLISECONDS,
        at_s=tuple(float(at_s) for at_s in seconds),
        series=tuple(
            ChartSeries(
                name=s.approach.title,
                approach=s.approach.name,
                values=tuple(values[s.approach.name].get(at_s) for at_s in seconds),
            )
            for s in summaries
        ),
        marks=failover.marks(summaries),
    )
    table = ReportTable(id=table_id, title=title, columns=tuple(columns), rows=tuple(rows))
    return show(table, [chart], folded=True)


def _sources(summaries: Sequence[Summary]) -> Section | None:
    if not any(summary.middle.reads.blocks for summary in summaries):
        return None
    transactions = [s.middle.reading_transactions for s in summaries]
    table = ReportTable(
        id="by-source",
        title="Blocks read, by source",
        columns=(
            text("approach", "Approach"),
            figure("blocks", "Blocks read", Unit.COUNT),
            figure("page_cache", "Page cache", Unit.COUNT),
            figure("flash", "Flash", Unit.COUNT),
            figure("disk", "Disk", Unit.COUNT),
            figure("per_transaction", "Blocks", Unit.PER_TRANSACTION),
            figure("mean_ms", "Mean wait", Unit.MILLISECONDS),
        ),
        rows=tuple(
            row(
                s.approach.title,
                reads.blocks,
                reads.page_cache if reads.page_cache_known else "not known",
                reads.flash,
                reads.disk,
                reads.blocks / n,
                reads.mean_ms,
            )
            for s, n in zip(summaries, transactions, strict=True)
            if (reads := s.middle.reads)
        ),
    )
    counts = [
        (s.middle.reads.page_cache, s.middle.reads.flash, s.middle.reads.disk) for s in summaries
    ]
    chart = Chart(
        form=ChartForm.SHARES,
        title="Blocks read per transaction",
        labels=tuple(s.approach.title for s in summaries),
        series=tuple(
            ChartSeries(
                name=name,
                values=tuple(one[place] / n for one, n in zip(counts, transactions, strict=True)),
            )
            for place, name in enumerate(SOURCES)
        ),
    )
    says = [
        "Blocks that were not in shared_buffers, and what served them: flash is the flash cache, "
        "or the flash device where that holds the data.",
    ]
    if not all(summary.middle.reads.page_cache_known for summary in summaries):
        says.append(
            "Without the extension PostgreSQL cannot tell the page cache from the device; such "
            "reads are counted as disk."
        )
    return Section(
        id="sources", title="Where reads were served", says=says, tables=[show(table, [chart])]
    )


def _hit_ratio(summaries: Sequence[Summary]) -> Section | None:
    shown = [(s, s.middle.cache) for s in summaries if s.middle.cache is not None]
    if not shown:
        return None
    table = ReportTable(
        id="caches",
        title="The cache of each approach",
        columns=(
            text("approach", "Approach"),
            text("mode", "Mode"),
            figure("size", "Size", Unit.BYTES),
            figure("used", "Used", Unit.SHARE),
            figure("held", "Of the database, at first", Unit.SHARE),
            figure("hit_ratio", "Hit ratio", Unit.SHARE),
            figure("flash_read_ms", "Flash read", Unit.MILLISECONDS),
            figure("disk_read_ms", "Disk read", Unit.MILLISECONDS),
        ),
        rows=tuple(
            row(
                s.approach.title,
                use.mode + (f" ({use.mode_reason})" if use.mode_reason else ""),
                use.size_bytes,
                use.used_slots / use.slots if use.slots else None,
                use.gauges.get("cached_share_before"),
                use.hit_ratio,
                use.gauges.get("flash_read_mean_ms"),
                use.gauges.get("disk_read_mean_ms"),
            )
            for s, use in shown
        ),
    )
    counters = ReportTable(
        id="counters",
        title="Counters while measuring",
        columns=(
            text("approach", "Approach"),
            text("counter", "Counter"),
            figure("growth", "Growth", Unit.COUNT),
        ),
        rows=tuple(
            row(s.approach.title, name, value)
            for s, use in shown
            for name, value in use.counters.items()
        ),
    )
    points = {s.approach.name: dict(hit_points(s.middle)) for s, _ in shown}
    over_time = _by_second(
        [s for s, _ in shown],
        points,
        table_id="hits-by-second",
        title="Hit ratio over time",
        unit=Unit.SHARE,
    )
    return Section(
        id="hits",
        title="The flash cache",
        says=["Hits over hits and misses. What the page cache served is neither."],
        tables=[
            *([over_time] if any(points.values()) else []),
            show(without_empty_columns(table)),
            show(counters, folded=True),
        ],
    )


def hit_points(attempt: Attempt) -> list[tuple[int, float]]:
    """Return the hit ratio of each interval between two looks at the counters."""
    points: list[tuple[int, float]] = []
    for before, after in zip(attempt.cache_seconds, attempt.cache_seconds[1:], strict=False):
        hits, misses = after.hits - before.hits, after.misses - before.misses
        if hits + misses > 0:
            points.append((round(after.at_s), hits / (hits + misses)))
    return points


def _waits(summaries: Sequence[Summary]) -> Section | None:
    shown = [s for s in summaries if any(a.waits for a in s.attempts)]
    if not shown:
        return None
    profiles = [class_profile(s.attempts) for s in shown]
    found = [one for one in WaitClass if one.counts and any(one in p for p in profiles)]
    figures = (
        figure("samples", "Samples", Unit.COUNT, Source.SAMPLED),
        figure("sessions", "Sessions", Unit.SESSIONS, Source.SAMPLED),
        figure("share", "Of DB time", Unit.SHARE, Source.SAMPLED),
    )
    classes = ReportTable(
        id="classes",
        title="Wait classes",
        columns=(text("approach", "Approach"), text("class", "Class"), *figures),
        rows=tuple(
            row(
                s.approach.title,
                str(name),
                share.samples,
                share.sessions,
                share.share if name.counts else "not DB time",
            )
            for s, profile in zip(shown, profiles, strict=True)
            for name, share in profile.items()
        ),
    )
    chart = Chart(
        form=ChartForm.SHARES,
        title="Share of DB time",
        unit="share",
        labels=tuple(s.approach.title for s in shown),
        series=tuple(
            ChartSeries(
                name=str(name),
                values=tuple(one[name].share if name in one else 0.0 for one in profiles),
            )
            for name in found
        ),
    )
    events = [
        ReportTable(
            id=f"events-{number}",
            title=f"Top events: {s.approach.title}",
            columns=(text("event", "Event"), text("class", "Class"), *figures),
            rows=tuple(
                row(w.event, str(w.wait_class), w.samples, w.sessions, w.share)
                for w in [w for w in wait_profile(s.attempts) if w.wait_class.counts][:TOP_EVENTS]
            ),
        )
        for number, s in enumerate(shown, start=1)
    ]
    hz = max(attempt.wait_hz for s in shown for attempt in s.attempts)
    return Section(
        id="waits",
        title="What the clients waited for",
        says=[
            f"Sampled from pg_stat_activity {whole(hz)} times a second, all repeats together. "
            "Idle sessions are shown in the table and never counted; so is I/O that served no "
            "client.",
        ],
        tables=[
            show(classes, [chart], folded=True),
            *(show(one, folded=number > 0) for number, one in enumerate(events)),
        ],
    )


def _reports(links: Sequence[tuple[str, str]]) -> Section | None:
    if not links:
        return None
    return Section(
        id="reports",
        title="What each server counted itself",
        says=[
            "A report on the measured window of each approach's middle repeat: every file call "
            "timed, everything else sampled. And each approach beside the baseline, ranked by "
            "what changed. Where the run follows a paper, its tables and figures beside ours.",
        ],
        links=links,
    )
