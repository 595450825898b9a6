# SPDX-License-Identifier: PostgreSQL
"""The report: one HTML file that opens offline.

Sentences first, then tables and charts; every chart has its table.  The page loads
nothing and runs no script: the charts are drawn here.  All text passes through
Jinja2's autoescape, because names come from a stored run that anyone may have written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from markupsafe import Markup

from pgflash.model.paper import paper_figure, paper_figures
from pgflash.model.run import Approach, Attempt, Run
from pgflash.model.summary import Summary, base_of, class_profile, ratio, summarize, wait_profile
from pgflash.report import charts, colours, sentences
from pgflash.report.environment import environment

#: The paper that the ratios beside ours are of.
_OF_RATIOS = "000"
#: Events in a table of top events, as in the papers.
TOP_EVENTS = 10


#: By workload: what a transaction is here.
_WHAT_COUNTS = {
    "oltp": "TPM is transactions a minute, NOPM new orders a minute. The load is TPC-C-like; this "
    "is not a TPC result.",
    "warehouse": "A transaction is a query; TPM is queries a minute. The queries are TPC-H-like; "
    "this is not a TPC result.",
    "micro": "A transaction is one read or write of the benchmark; TPM is those a minute.",
    "load": "A transaction is a batch of rows, TPM batches a minute; what counts is how long the "
    "whole load took.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts; columns after the first are numbers unless they say otherwise."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: Columns (from 0) that hold words, and stand left.
    words: frozenset[int] = frozenset({0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    says: Sequence[str] = ()
    charts: Sequence[tuple[str, Markup]] = ()
    tables: Sequence[tuple[str, Table]] = ()
    #: Text and relative address of pages that belong to this one.
    links: Sequence[tuple[str, str]] = ()
    #: Tables that stand behind the chart, folded.
    folded: Sequence[tuple[str, Table]] = field(default=())
    #: Colour and name, for charts that carry no legend of their own.
    legend: Sequence[tuple[str, str]] = ()
    side_by_side: bool = False


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
    """Yield the page's parts in order; None where there is nothing to show."""
    if summaries:
        yield _throughput(run, summaries)
        yield _latency(summaries)
        yield _over_time(summaries)
        yield _sources(summaries)
        yield _hit_ratio(summaries)
        yield _waits(summaries)
        yield _reports(links)
        yield _cpu(run, summaries)
        yield _repeats(run)
        yield _paper() if run.paper == _OF_RATIOS else None
    yield _devices(run, summaries)
    yield _settings(run)


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
                    colour=_colour(summary)[0],
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
                _marked(summary),
                f"{summary.tpm:,.0f}",
                f"{summary.nopm:,.0f}",
                _number(summary.duration_s or None, "{:,.1f}"),
                _number(value, "{:.2f}"),
                _number(figure.ratio if figure else None, "{:.2f}"),
                f"{summary.reads_per_transaction:.2f}",
                f"{summary.read_ms:.2f}",
                _number(summary.hit_ratio, "{:.1%}"),
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
        tables=[("", Table(head=head, rows=rows))],
    )


def _latency(summaries: Sequence[Summary]) -> Section:
    rows = [
        (
            _marked(s),
            *(f"{v:,.1f}" for v in (s.p50_ms, s.p95_ms, s.p99_ms)),
            f"{max(a.latency.max_ms for a in s.attempts):,.0f}",
        )
        for s in summaries
    ]
    spreads = [
        charts.Spread(
            name=s.approach.title, colour=_colour(s)[0], p50=s.p50_ms, p95=s.p95_ms, p99=s.p99_ms
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
        _series(s, [(x.at_s, 60.0 * x.transactions) for x in s.middle.seconds]) for s in shown
    ]
    latency = [_series(s, [(x.at_s, x.p95_ms) for x in s.middle.seconds]) for s in shown]
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
    series = [_series(s, hit_points(s.middle)) for s in shown]
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
                f"{use.size_bytes / 2**20:,.0f}",
                f"{use.used_slots / use.slots:.0%}" if use.slots else "",
                _number(use.hit_ratio, "{:.1%}"),
                _number(use.gauges.get("flash_read_mean_ms"), "{:.3f}"),
                _number(use.gauges.get("disk_read_mean_ms"), "{:.2f}"),
            )
        )
        counters.extend(
            (summary.approach.title, name, f"{value:,}") for name, value in use.counters.items()
        )
    head = ("approach", "mode", "size, MiB", "used", "hit ratio", "flash read, ms", "disk read, ms")
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


def _cpu(run: Run, summaries: Sequence[Summary]) -> Section:
    rows = [
        (
            _marked(s),
            f"{s.server_cpu_ms_per_transaction:.2f}",
            f"{s.server_cpu_user_ms_per_transaction:.2f}",
            f"{s.server_cpu_system_ms_per_transaction:.2f}",
            f"{s.server_cpu_share:.0%}",
            f"{s.foreign_cpu_share:.0%}",
        )
        for s in summaries
    ]
    head = (
        "approach",
        "server CPU / transaction, ms",
        "user",
        "system",
        "server's share of the machine",
        "foreign share",
    )
    pictures, means = [], []
    for summary in summaries:
        seconds = summary.middle.cpu_seconds
        if not seconds:
            continue
        columns = {
            "User": [x.user for x in seconds],
            "System": [x.system for x in seconds],
            "I/O wait": [x.iowait for x in seconds],
            "Idle": [x.idle for x in seconds],
        }
        areas = [
            (x.at_s, part, values[i])
            for i, x in enumerate(seconds)
            for part, values in columns.items()
        ]
        pictures.append(
            (
                summary.approach.title,
                charts.areas(areas, colours=colours.CPU, title=f"CPU, {summary.approach.title}"),
            )
        )
        means.append(
            (
                summary.approach.title,
                *(f"{sum(values) / len(values):.0%}" for values in columns.values()),
            )
        )
    return Section(
        id="cpu",
        title="Processors",
        says=[
            "The server's CPU is that of all its processes, dead ones included. Foreign is what "
            "was neither the server's nor the load driver's.",
            *(
                ["An emulated device makes no I/O wait: its delays are sleeps, and show as idle."]
                if run.emulated_devices
                else []
            ),
        ],
        charts=pictures,
        tables=[("", Table(head=head, rows=rows))],
        folded=[("Means of the pictures", Table(head=("approach", *colours.CPU), rows=means))]
        if means
        else [],
        legend=[(colour, name) for name, colour in colours.CPU.items()] if pictures else [],
        side_by_side=True,
    )


def _repeats(run: Run) -> Section:
    titles = {approach.name: approach.title for approach in run.approaches}
    rows = [
        (
            str(order),
            titles.get(a.approach, a.approach),
            str(a.repeat),
            f"{a.tpm:,.0f}",
            f"{a.nopm:,.0f}",
            f"{a.nopm_counted:,.0f}",
            f"{a.latency.p95_ms:,.1f}",
            f"{a.server_cpu_ms_per_transaction:.2f}",
            f"{a.cpu.foreign_share:.0%}",
            f"{a.wal_bytes / 2**20:,.0f}",
            a.polluted + (" (repeated)" if a.superseded else "") if a.polluted else "",
        )
        for order, a in enumerate(run.attempts, start=1)
    ]
    head = (
        "order",
        "approach",
        "repeat",
        "TPM",
        "NOPM",
        "NOPM counted",
        "p95, ms",
        "server CPU, ms",
        "foreign CPU",
        "WAL, MiB",
        "polluted",
    )
    return Section(
        id="repeats",
        title="Every attempt",
        says=[
            "In the order in which they were made. NOPM is counted twice: from the driver's log, "
            "and from the order numbers in the database. Each attempt began with the same restored "
            "database; the consistency conditions of the workload were checked after each."
        ],
        tables=[("", Table(head=head, rows=rows, words=frozenset({1, 10})))],
    )


def _paper() -> Section:
    rows = [
        (f.title, f"{f.commits:,}", f"{f.ratio:.2f}", f.printed, f.note) for f in paper_figures()
    ]
    head = ("approach", "commits in the hour", "ratio", "printed", "note")
    return Section(
        id="paper",
        title="What the paper's factors really are",
        says=[
            "The paper beside which the bars stand measured 24 short-stroked 15K disks against 4 "
            "SSDs, with 100 users for an hour. Its headline percentages do not agree with its own "
            "tables. The ratios here are commits of the hour (log file sync waits in its AWR "
            "extracts) over the baseline's: 136 %, 302 % and 538 % are percent of the baseline, "
            "and only 63 % is an increase.",
        ],
        tables=[("", Table(head=head, rows=rows, words=frozenset({0, 3, 4})))],
    )


def _devices(run: Run, summaries: Sequence[Summary]) -> Section:
    rows = [(d.role, d.title, "emulated" if d.emulated else "real", d.summary) for d in run.devices]
    facts = [
        (
            d.title,
            Table(head=("setting", "value"), rows=list(d.facts.items()), words=frozenset({0, 1})),
        )
        for d in run.devices
        if d.facts
    ]
    where = [
        (a.title, a.data, a.wal, "on flash" if a.cache else "none", _what_else(a))
        for a in run.approaches
    ]
    words = frozenset({0, 1, 2, 3, 4})
    return Section(
        id="devices",
        title="Devices and approaches",
        tables=[
            ("", Table(head=("role", "device", "kind", "what it is"), rows=rows, words=words)),
            (
                "",
                Table(
                    head=("approach", "data on", "WAL on", "flash cache", "what else"),
                    rows=where,
                    words=words,
                ),
            ),
        ],
        folded=[*_device_work(summaries), *facts],
    )


def _what_else(approach: Approach) -> str:
    """Say in a few words what else an approach changes."""
    parts = [f"{name} {value}" for name, value in approach.changes.items()]
    if approach.objects:
        parts.append(f"on flash: {', '.join(approach.objects)}")
    if approach.keep:
        parts.append(f"kept: {', '.join(approach.keep)}")
    if approach.temp:
        parts.append(f"temporary files on {approach.temp}")
    if approach.archive:
        parts.append(f"archive on {approach.archive}")
    if approach.cache_files > 1:
        parts.append(f"{approach.cache_files} cache files")
    return "; ".join(parts)


def _device_work(summaries: Sequence[Summary]) -> list[tuple[str, Table]]:
    """Return what the emulated devices counted, to be held against PostgreSQL's own figures."""
    rows = []
    for summary in summaries:
        for name, counted in summary.middle.devices.items():
            if not any(counted.get(f"{one}_count") for one in ("read", "write", "log_sync")):
                continue
            rows.append(
                (
                    summary.approach.title,
                    f"{name} (emulated)",
                    f"{counted.get('utilisation', 0):.0%}",
                    *(
                        cell
                        for one in ("read", "write", "log_sync")
                        for cell in (
                            f"{counted.get(f'{one}_count', 0):,.0f}",
                            f"{counted.get(f'{one}_mean_ms', 0):.2f}",
                        )
                    ),
                )
            )
    head = ("approach", "device", "busy", "reads", "mean, ms", "writes", "mean, ms")
    table = Table(head=(*head, "WAL syncs", "mean, ms"), rows=rows, words=frozenset({0, 1}))
    return [("What the emulated devices counted while measuring", table)] if rows else []


def _settings(run: Run) -> Section:
    about = {
        "run": run.id,
        "scenario": f"{run.scenario}, preset {run.preset}" if run.preset else run.scenario,
        "started": run.started_at,
        "ended": run.ended_at or "not finished",
        "PostgreSQL": run.postgres_version,
        "pgflash": run.pgflash_version,
        "database": f"{run.database_bytes / 2**20:,.0f} MiB",
        **run.machine,
    }
    words = frozenset({0, 1})
    return Section(
        id="settings",
        title="What was run, on what",
        says=["The same settings for every approach; only the placement differs."],
        tables=[
            ("", Table(head=("what", "value"), rows=list(about.items()), words=words)),
            (
                "",
                Table(head=("parameter", "value"), rows=list(run.parameters.items()), words=words),
            ),
        ],
        folded=[
            (
                "PostgreSQL settings",
                Table(head=("setting", "value"), rows=list(run.settings.items()), words=words),
            )
        ],
    )


def _series(summary: Summary, points: Sequence[tuple[float, float]]) -> charts.Series:
    colour, dash = _colour(summary)
    return charts.Series(name=summary.approach.title, colour=colour, dash=dash, points=points)


def _colour(summary: Summary) -> tuple[str, list[int]]:
    name = summary.approach.name
    spare = colours.SPARES[crc32(name.encode()) % len(colours.SPARES)]
    return colours.APPROACHES.get(name, spare)


def _marked(summary: Summary) -> str:
    """Return the approach's title, with a mark if its figures are polluted."""
    return f"{summary.approach.title} (polluted)" if summary.polluted else summary.approach.title


def _number(value: float | None, form: str) -> str:
    """Return the number, or a dash where there is none."""
    return "–" if value is None else form.format(value)
