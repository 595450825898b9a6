# SPDX-License-Identifier: PostgreSQL
"""The report: one HTML file that opens offline.

Sentences come first, then tables and charts; every chart has its table.  The page loads nothing and
runs no script: the charts are drawn here.  All text passes through Jinja2's autoescape, because
names come from a stored run that anyone may have written.
"""

from collections.abc import Iterator, Sequence

from pgflash.model.paper import paper_figure
from pgflash.model.run import Attempt, Run
from pgflash.model.sizes import megabytes
from pgflash.model.summary import Summary, base_of, class_profile, ratio, summarize, wait_profile
from pgflash.report import charts, colours, sentences
from pgflash.report.environment import environment
from pgflash.report.page_conditions import cpu, devices, paper, repeats, settings
from pgflash.report.page_parts import Section, Table, colour_of, in_form, marked, series_of

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
    "load": "A transaction is a batch of rows, TPM batches a minute; what counts is how long the "
    "whole load took.",
}


def render_page(run: Run, *, links: Sequence[tuple[str, str]] = ()) -> str:
    """Return the report as HTML; links (title, relative address) lead to pages beside it."""
    summaries = summarize(run)
    sections = [section for section in _sections(run, summaries, links) if section is not None]
    page: str = (
        environment()
        .get_template("report.html.j2")
        .render(
            run=run,
            headline=sentences.headline(run, summaries),
            second_line=sentences.second_line(run, summaries),
            cautions=sentences.cautions(run, summaries),
            sections=sections,
        )
    )
    return page


def _sections(
    run: Run, summaries: Sequence[Summary], links: Sequence[tuple[str, str]]
) -> Iterator[Section | None]:
    """Yield the page's parts in order; None if there is nothing to show."""
    if summaries:
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
    bars, rows = [], []
    tpm = {summary.approach.name: summary.tpm for summary in summaries}
    for summary in summaries:
        value = ratio(summaries, summary.approach.name)
        figure = paper_figure(summary.approach.name) if run.paper == _OF_RATIOS else None
        if value is not None:
            bars.append(
                charts.Bar(
                    name=summary.approach.title,
                    colour=colour_of(summary)[0],
                    value=value,
                    label=f"{value:.2f}× · {summary.tpm:,.0f} TPM",
                    paper=figure.ratio if figure else None,
                    repeats=[
                        attempt.tpm / tpm[base_of(summary.approach)] for attempt in summary.attempts
                    ],
                )
            )
        rows.append(
            (
                marked(summary),
                f"{summary.tpm:,.0f}",
                f"{summary.nopm:,.0f}",
                in_form(summary.duration_s or None, "{:,.1f}"),
                in_form(value, "{:.2f}"),
                in_form(figure.ratio if figure else None, "{:.2f}"),
                f"{summary.reads_per_transaction:.2f}",
                f"{summary.read_ms:.2f}",
                in_form(summary.hit_ratio, "{:.1%}"),
                f"{summary.server_cpu_ms_per_transaction:.2f}",
            )
        )
    head = (
        "approach",
        "TPM",
        "NOPM",
        "took, s",
        "ratio",
        "paper's ratio",
        "reads / transaction",
        "mean read, ms",
        "cache hit ratio",
        "server CPU, ms / transaction",
    )
    says = [
        _WHAT_COUNTS.get(summaries[0].middle.workload, ""),
        "Figures are medians over the repeats, which are the small circles.",
        sentences.ceiling(summaries),
    ]
    chart = charts.ratio_bars(bars, title="throughput, as a multiple of the baseline")
    return Section(
        id="throughput",
        title="Throughput",
        says=[sentence for sentence in says if sentence],
        charts=[("", chart)] if bars else [],
        tables=[("", Table(head=head, rows=rows).without_empty_columns())],
    )


def _latency(summaries: Sequence[Summary]) -> Section:
    rows = [
        (
            marked(s),
            *(f"{v:,.1f}" for v in (s.p50_ms, s.p95_ms, s.p99_ms)),
            f"{max(a.latency.max_ms for a in s.attempts):,.0f}",
        )
        for s in summaries
    ]
    spreads = [
        charts.Spread(
            name=s.approach.title, colour=colour_of(s)[0], p50=s.p50_ms, p95=s.p95_ms, p99=s.p99_ms
        )
        for s in summaries
    ]
    kinds = [
        (
            s.approach.title,
            one.transaction,
            f"{one.count:,}",
            *(f"{v:,.1f}" for v in (one.mean_ms, one.p50_ms, one.p95_ms, one.p99_ms)),
            f"{one.max_ms:,.0f}",
        )
        for s in summaries
        for one in s.middle.by_transaction
    ]
    head = ("approach", "transaction", "count", "mean", "p50", "p95", "p99", "max")
    return Section(
        id="latency",
        title="Response time",
        says=["Milliseconds a transaction takes as its client sees it, commit included."],
        charts=[("", charts.spreads(spreads, title="response time, ms (logarithmic)"))],
        tables=[
            ("", Table(head=("approach", "p50, ms", "p95, ms", "p99, ms", "max, ms"), rows=rows))
        ],
        folded=[("By transaction, ms", Table(head=head, rows=kinds, words=frozenset({0, 1})))]
        if kinds
        else [],
    )


def _over_time(summaries: Sequence[Summary]) -> Section | None:
    shown = [summary for summary in summaries if summary.middle.seconds]
    if not shown:
        return None
    throughput = [
        series_of(s, [(x.at_s, 60.0 * x.transactions) for x in s.middle.seconds]) for s in shown
    ]
    latency = [series_of(s, [(x.at_s, x.p95_ms) for x in s.middle.seconds]) for s in shown]
    seconds = sorted({x.at_s for s in shown for x in s.middle.seconds})
    by_second = [{x.at_s: x for x in s.middle.seconds} for s in shown]
    rows = [
        (
            str(at_s),
            *(f"{60 * one[at_s].transactions:,}" if at_s in one else "" for one in by_second),
            *(f"{one[at_s].p95_ms:,.1f}" if at_s in one else "" for one in by_second),
        )
        for at_s in seconds
    ]
    names = [summary.approach.title for summary in shown]
    head = ("s", *(f"TPM {name}" for name in names), *(f"p95 ms {name}" for name in names))
    return Section(
        id="time",
        title="Over time",
        says=["The repeat nearest to each approach's median, second by second."],
        charts=[
            ("Transactions a minute", charts.lines(throughput, title="TPM")),
            ("Response time, 95th percentile", charts.lines(latency, title="ms", log=True)),
        ],
        folded=[("Second by second", Table(head=head, rows=rows))],
    )


def _sources(summaries: Sequence[Summary]) -> Section | None:
    if not any(summary.middle.reads.blocks for summary in summaries):
        return None
    parts, rows = [], []
    for summary in summaries:
        reads, n = summary.middle.reads, max(summary.middle.transactions_all, 1)
        for part, count in zip(
            colours.SOURCES, (reads.page_cache, reads.flash, reads.disk), strict=True
        ):
            parts.append((summary.approach.title, part, count / n))
        rows.append(
            (
                summary.approach.title,
                f"{reads.blocks:,}",
                f"{reads.page_cache:,}" if reads.page_cache_known else "not known",
                f"{reads.flash:,}",
                f"{reads.disk:,}",
                f"{reads.blocks / n:.2f}",
                f"{reads.mean_ms:.2f}",
            )
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
    head = ("approach", "blocks read", "page cache", "flash", "disk")
    return Section(
        id="sources",
        title="Where reads were served",
        says=says,
        charts=[
            (
                "",
                charts.stacked_bars(
                    parts,
                    colours=colours.SOURCES,
                    names=[summary.approach.title for summary in summaries],
                    title="blocks read per transaction",
                    share=False,
                ),
            )
        ],
        tables=[("", Table(head=(*head, "blocks / transaction", "mean wait, ms"), rows=rows))],
    )


def _hit_ratio(summaries: Sequence[Summary]) -> Section | None:
    shown = [s for s in summaries if s.middle.cache is not None]
    if not shown:
        return None
    series = [series_of(s, hit_points(s.middle)) for s in shown]
    rows: list[tuple[str, ...]] = []
    counters: list[tuple[str, ...]] = []
    for summary in shown:
        use = summary.middle.cache
        assert use is not None
        why = f" ({use.mode_reason})" if use.mode_reason else ""
        rows.append(
            (
                summary.approach.title,
                f"{use.mode}{why}",
                megabytes(use.size_bytes),
                f"{use.used_slots / use.slots:.0%}" if use.slots else "",
                in_form(use.hit_ratio, "{:.1%}"),
                in_form(use.gauges.get("flash_read_mean_ms"), "{:.3f}"),
                in_form(use.gauges.get("disk_read_mean_ms"), "{:.2f}"),
            )
        )
        counters.extend(
            (summary.approach.title, name, f"{value:,}") for name, value in use.counters.items()
        )
    head = ("approach", "mode", "size, MB", "used", "hit ratio", "flash read, ms", "disk read, ms")
    by_second = [dict(hit_points(s.middle)) for s in shown]
    seconds = sorted({at_s for one in by_second for at_s in one})
    time_rows = [
        (f"{at_s:.0f}", *(f"{one[at_s]:.1%}" if at_s in one else "" for one in by_second))
        for at_s in seconds
    ]
    return Section(
        id="hits",
        title="The flash cache",
        says=["Hits over hits and misses. What the page cache served is neither."],
        charts=[("Hit ratio over time", charts.lines(series, title="hit ratio", share=True))]
        if any(one.points for one in series)
        else [],
        tables=[("", Table(head=head, rows=rows, words=frozenset({0, 1})))],
        folded=[
            (
                "Hit ratio by second",
                Table(head=("s", *(s.approach.title for s in shown)), rows=time_rows),
            ),
            (
                "Counters while measuring",
                Table(
                    head=("approach", "counter", "growth"), rows=counters, words=frozenset({0, 1})
                ),
            ),
        ],
    )


def hit_points(attempt: Attempt) -> list[tuple[float, float]]:
    """Return the hit ratio of each interval between two looks at the counters."""
    points: list[tuple[float, float]] = []
    for before, after in zip(attempt.cache_seconds, attempt.cache_seconds[1:], strict=False):
        hits, misses = after.hits - before.hits, after.misses - before.misses
        if hits + misses > 0:
            points.append((round(after.at_s), hits / (hits + misses)))
    return points


def _waits(summaries: Sequence[Summary]) -> Section | None:
    shown = [s for s in summaries if any(a.waits for a in s.attempts)]
    if not shown:
        return None
    parts, classes, events = [], [], []
    for summary in shown:
        by_class = class_profile(summary.attempts)
        for wait_class, share in by_class.items():
            if wait_class.counts:
                parts.append((summary.approach.title, str(wait_class), share.share))
            classes.append(
                (
                    summary.approach.title,
                    str(wait_class),
                    f"{share.samples:,}",
                    f"{share.sessions:.2f}",
                    f"{share.share:.1%}" if wait_class.counts else "not DB time",
                )
            )
        top = [w for w in wait_profile(summary.attempts) if w.wait_class.counts][:TOP_EVENTS]
        rows = [
            (w.event, str(w.wait_class), f"{w.samples:,}", f"{w.sessions:.2f}", f"{w.share:.1%}")
            for w in top
        ]
        head = ("event", "class", "samples", "sessions", "% DB time")
        table = Table(head=head, rows=rows, words=frozenset({0, 1}))
        events.append((f"Top {len(rows)} events: {summary.approach.title}", table))
    hz = max(attempt.wait_hz for s in shown for attempt in s.attempts)
    head = ("approach", "class", "samples", "sessions", "% DB time")
    return Section(
        id="waits",
        title="What the clients waited for",
        says=[
            f"Sampled from pg_stat_activity {hz:.0f} times a second, all repeats together. Idle "
            "sessions are shown in the table and never counted; so is I/O that served no client.",
        ],
        charts=[
            (
                "",
                charts.stacked_bars(
                    parts,
                    colours={str(name): colour for name, colour in colours.WAIT_CLASSES.items()},
                    names=[summary.approach.title for summary in shown],
                    title="share of DB time",
                    share=True,
                ),
            )
        ],
        tables=events[:1],
        folded=[
            *events[1:],
            ("Wait classes", Table(head=head, rows=classes, words=frozenset({0, 1}))),
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
