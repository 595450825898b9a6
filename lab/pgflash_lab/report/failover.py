# SPDX-License-Identifier: PostgreSQL
"""A run of the failover workload: its sentence, its picture, and its own table.

The figures are facts of each attempt (docs/reference/result.md).  A recovery that was not seen
within the measured time is longer than any that was: so it counts in a median.
"""

import math
import statistics
from collections.abc import Sequence

from pgflash.analyze.grid import figure, row, text
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.words import figure as digits
from pgflash.model.words import percent, sentence, whole
from pgflash.report.drawing import figures_of
from pgflash.report.shown import show
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import Summary, is_failover
from pgflash_lab.report.page_conditions import Section, marked, without_empty_columns


def headline(run: Run, summaries: Sequence[Summary]) -> str:
    """Return the result in one sentence."""
    if not summaries:
        return "No failover has been measured yet."
    of_wal = _wal_headline(run, summaries)
    if of_wal:
        return of_wal
    parts = [f"{_recovery(one)} with “{one.approach.title}”" for one in summaries]
    where = "on emulated devices " if run.emulated_devices else ""
    said = (
        f"{where}the new leader reached 90 % of the throughput before, counted from its "
        f"promotion, {', '.join(parts)}."
    )
    return sentence(said)


def _wal_headline(run: Run, summaries: Sequence[Summary]) -> str:
    """Return what WAL on flash brings while nothing fails, and what is lost with it: nothing.

    Empty unless it was measured beside WAL that is elsewhere.
    """
    known = {one.approach.name: one for one in summaries}
    for one in summaries:
        base = known.get(one.approach.base, one)
        before, without = _median(one, "before_tps"), _median(base, "before_tps")
        if one.approach.wal == base.approach.wal or not before or not without:
            continue
        kept = "no acknowledged order was lost with the leader"
        if "returned_s" in one.middle.facts:
            kept += " and its flash"
        return sentence(
            f"{'on emulated devices, ' if run.emulated_devices else ''}“{one.approach.title}” with "
            f"a synchronous standby reached {digits(before / without)} times the throughput of "
            f"“{base.approach.title}”, and {kept}."
        )
    return ""


def marks(summaries: Sequence[Summary]) -> tuple[tuple[float, str], ...]:
    """Return the moments of a failover, as the middle repeats had them; nothing without one."""
    shown = [one for one in summaries if "promoted_s" in one.middle.facts]
    if not shown:
        return ()
    fault_s = statistics.median(one.middle.facts["fault_s"] for one in shown)
    return (
        (fault_s, "the leader ends"),
        *((one.middle.facts["promoted_s"], f"promoted: {one.approach.name}") for one in shown),
    )


def section(run: Run, summaries: Sequence[Summary]) -> Section | None:
    """Return the part of the page about the failover; None if there was none."""
    if not is_failover(run):
        return None
    table = _table(summaries)
    return Section(
        id="failover",
        title="The failover",
        says=_says(run, summaries),
        opening=figures_of([_picture(summaries)], about=table.title),
        tables=[show(without_empty_columns(table))],
    )


def _picture(summaries: Sequence[Summary]) -> Chart:
    """Return the throughput over time, with the failover marked."""
    seconds = sorted({one.at_s for s in summaries for one in s.middle.seconds})
    counts = {
        s.approach.name: {x.at_s: x.transactions for x in s.middle.seconds} for s in summaries
    }
    return Chart(
        form=ChartForm.LINES,
        title="Transactions a second, of the repeat nearest to each median",
        at_s=tuple(float(at_s) for at_s in seconds),
        series=tuple(
            ChartSeries(
                name=s.approach.title,
                approach=s.approach.name,
                values=tuple(counts[s.approach.name].get(at_s) for at_s in seconds),
            )
            for s in summaries
        ),
        marks=marks(summaries),
    )


def _table(summaries: Sequence[Summary]) -> ReportTable:
    """Return each approach's failover."""
    return ReportTable(
        id="failovers",
        title="Medians of the repeats",
        columns=(
            text("approach", "Approach"),
            figure("before", "TPS before", Unit.COUNT),
            figure("before_p95", "p95 before", Unit.MILLISECONDS),
            figure("before_commit", "Commit waits a transaction", Unit.MILLISECONDS),
            figure("to_promotion", "To the promotion", Unit.SECONDS),
            figure("without_commit", "Without a commit", Unit.SECONDS),
            text("recovery", "90 % of TPS before, from the promotion"),
            figure("returned", "Old leader back after", Unit.SECONDS),
            figure("warmth", "Warm, before", Unit.SHARE),
            figure("list_cpu", "List: server CPU", Unit.SHARE),
            figure("list_wal", "List: WAL", Unit.SHARE),
            figure("orders", "Acknowledged orders", Unit.COUNT),
            figure("compared", "Blocks compared", Unit.COUNT),
        ),
        rows=tuple(
            row(
                marked(one),
                _median(one, "before_tps"),
                _median(one, "before_p95_ms"),
                _median(one, "before_commit_ms"),
                _median(one, "to_promotion_s"),
                _median(one, "without_commit_s"),
                _recovery(one),
                _median(one, "returned_s"),
                _median(one, "warmth"),
                _median(one, "list_cpu_share"),
                _median(one, "list_wal_share"),
                sum(a.facts["acknowledged_orders"] for a in one.attempts),
                sum(a.cache.counters.get("verify_compared", 0) for a in one.attempts if a.cache)
                or None,
            )
            for one in summaries
        ),
    )


def _says(run: Run, summaries: Sequence[Summary]) -> list[str]:
    """Say how it was measured, and what was checked."""
    settings = run.parameters
    orders = sum(a.facts["acknowledged_orders"] for s in summaries for a in s.attempts)
    says = [
        f"Three members under Patroni (ttl {settings.get('ttl_s')} s, loop_wait "
        f"{settings.get('loop_wait_s')} s, retry_timeout {settings.get('retry_timeout_s')} s), "
        "each on an array and a flash drive of its own, one of the standbys synchronous. The time "
        "to the promotion of a leader that was killed is nearly all Patroni's: its ttl. The "
        "promotion is the moment when a server first accepts a client that wants to write.",
        "The throughput before is the mean from the start of measuring until the leader ends. It "
        "counts as reached again after the first second with which three seconds begin that have "
        "90 % of it in the mean.",
        f"Every one of {whole(orders)} acknowledged orders was on the new leader, and no block "
        "from flash differed from its file where blocks were compared.",
        *_says_of_flash(run, summaries),
        "Reads, waits for them and the cache's counters are those of the new leader, from its "
        "promotion on.",
    ]
    cpu = [one for s in summaries if (one := _median(s, "list_cpu_share")) is not None]
    wal = [one for s in summaries if (one := _median(s, "list_wal_share")) is not None]
    if cpu and wal:
        says.append(
            f"While nothing happened, a list every {settings.get('list_s')} s cost "
            f"{percent(max(cpu))} of the servers' CPU time and {percent(max(wal))} of the "
            "WAL, at most."
        )
    return says


def _says_of_flash(run: Run, summaries: Sequence[Summary]) -> list[str]:
    """Say how far the members were apart, and how a leader without its flash came back."""
    says = []
    network_ms = float(str(run.parameters.get("network_ms") or 0))
    if network_ms:
        says.append(
            f"Between two members a round trip took {network_ms:g} ms, emulated. Waits for commits "
            "are sampled; they include the network and the standby's own flush."
        )
    if any("returned_s" in one.middle.facts for one in summaries):
        says.append(
            "The flash of the killed leader was erased. After the measured time the leader was "
            "started again and came back as a standby: with its WAL by pg_rewind, without it by a "
            "base backup that Patroni was asked for."
        )
    return says


def _recovery(summary: Summary) -> str:
    """Return how long the recovery took."""
    median_s = statistics.median_high(
        one.facts.get("recovery_s", math.inf) for one in summary.attempts
    )
    if math.isinf(median_s):
        watched_s = min(one.facts["watched_s"] for one in summary.attempts)
        return f"not within {whole(int(watched_s))} s"
    return f"within {whole(int(median_s))} s"


def _median(summary: Summary, fact: str) -> float | None:
    """Return the median of a fact over the repeats that have it."""
    known = [one.facts[fact] for one in summary.attempts if fact in one.facts]
    return statistics.median(known) if known else None
