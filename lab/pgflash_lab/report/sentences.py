# SPDX-License-Identifier: PostgreSQL
"""A run in words, before any table or chart.

Sentences are cautious: a spread wider than the difference, an attempt marked polluted or a run that
was stopped is mentioned beside the figure that it weakens.
"""

from collections.abc import Iterator, Sequence

from pgflash.model.words import figure, percent, sentence, whole
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import COUNTED, Summary, base_of, is_failover, paired_ratio, ratio
from pgflash_lab.report import failover

#: The effect of an approach on a server, as the end of "the server did N times ...".
MEANS = {
    "flash-cache": "with the flash cache",
    "wal-on-flash": "with the WAL on flash",
    "wal-and-cache": "with the WAL on flash and the flash cache",
    "hot-objects": "with the WAL and the hottest table on flash",
    "all-on-flash": "with everything on flash",
}

#: The approach that is nearest to everything on flash.
BOTH = "wal-and-cache"

#: Repeats that differ by more are mentioned whatever the result is.
SPREAD_MAX = 0.1

#: A cache that was filled holds this much of the database, or the report warns.
HELD_MIN = 0.95


def headline(run: Run, summaries: Sequence[Summary]) -> str:
    """Return the result in one sentence.

    Where it was measured, it is how near the flash cache comes to having everything on flash.
    """
    if is_failover(run):
        return failover.headline(run, summaries)
    known = {summary.approach.name: summary for summary in summaries}
    value, near = ratio(summaries, BOTH), paired_ratio(run, BOTH, "all-on-flash")
    if value is not None and near is not None:
        base = known[base_of(known[BOTH].approach)]
        than = "the array alone" if _is_plain(base) else f"“{base.approach.title}”"
        return (
            f"{'On emulated devices, ' if run.emulated_devices else ''}WAL on flash and the flash "
            f"cache together reached {figure(value)} times the throughput of {than}, and "
            f"{percent(near)} of that of everything on flash."
        )
    parts: dict[str, list[str]] = {}
    for summary in summaries:
        approach = summary.approach
        value = ratio(summaries, approach.name)
        if value is None or base_of(approach) == approach.name:
            continue
        how = "as fast" if known[base_of(approach)].duration_s else "as many"
        means = MEANS.get(approach.name, f"with “{approach.title}”")
        parts.setdefault(base_of(approach), []).append(f"{figure(value)} times {how} {means}")
    if not parts:
        return "This run has no approach to compare with a baseline yet."
    where = "on emulated devices " if run.emulated_devices else ""
    return " ".join(
        f"{_base_pace(known[base], where)} {_joined(those)}." for base, those in parts.items()
    )


def _base_pace(base: Summary, where: str) -> str:
    """Begin to say how the server did, with the baseline in the terms of its workload."""
    how = "everything on the array" if _is_plain(base) else f"“{base.approach.title}”"
    if base.duration_s:
        done = f"{where}the server took {figure(base.duration_s)} seconds with {how}; it was"
        return sentence(done)
    # The read phase of a load scans; its batches are those of the write phase.
    counted = COUNTED.get(base.middle.workload, "operations")
    what = "operations" if counted == "batches" else counted
    return sentence(f"{where}the server did {figure(base.tpm)} {what} a minute with {how}, and")


def _is_plain(summary: Summary) -> bool:
    """Tell whether an approach has everything on the array."""
    approach = summary.approach
    places = {approach.data, approach.wal, approach.temp, approach.archive} - {""}
    return places == {"array"} and not approach.cache and not approach.objects


def cautions(run: Run, summaries: Sequence[Summary]) -> list[str]:
    """Return what weakens the figures, the most important first."""
    found = []
    if run.stopped:
        found.append(f"The run was stopped before its end: {run.stopped}.")
    if run.emulated_devices:
        names = " and ".join(device.name for device in run.emulated_devices)
        found.append(
            f"The devices were emulated ({names}): file calls were delayed as such a device "
            "would. The ratios show how PostgreSQL behaves on them, not what any product does."
        )
    polluted = [summary for summary in summaries if summary.polluted]
    if polluted:
        whose = _which(polluted, summaries)
        found.append(
            f"Other programs took much of the processors in every attempt of {whose}. These "
            "figures are marked, and not to be relied on."
        )
    # How long an outage was decides how many transactions there were.
    if not is_failover(run):
        found.extend(_spreads(summaries))
    found.extend(
        f"{summary.approach.title}: transactions that failed in all their tries, and are not "
        f"counted: {whole(failed)}."
        for summary in summaries
        if (failed := sum(one.facts.get("failed", 0.0) for one in summary.attempts)) > 0
    )
    prefilled = run.parameters.get("prefill") == "True"
    found.extend(
        f"{summary.approach.title}: when measuring began, the flash cache held only "
        f"{percent(held)} of the database."
        for summary in summaries
        if prefilled and (held := _held_at_first(summary)) < HELD_MIN
    )
    single = [summary for summary in summaries if len(summary.attempts) == 1]
    if single:
        why = _no_time(run, single)
        found.append(f"Measured only once{why}: {_which(single, summaries)}.")
    return found


def _spreads(summaries: Sequence[Summary]) -> Iterator[str]:
    """Name the approaches whose repeats differ much, or more than the approach from its base."""
    known = {summary.approach.name: summary for summary in summaries}
    for summary in summaries:
        title = summary.approach.title
        if summary.spread > SPREAD_MAX:
            yield f"{title}: its repeats differ by {percent(summary.spread)}."
        base = known.get(base_of(summary.approach), summary)
        value = ratio(summaries, summary.approach.name)
        spread = max(summary.spread, base.spread)
        if value is not None and base is not summary and abs(value - 1) < spread:
            yield (
                f"{title}: its throughput differs from that of “{base.approach.title}” by "
                f"{percent(abs(value - 1))}, less than repeats of the same do ({percent(spread)})."
            )


def _no_time(run: Run, single: Sequence[Summary]) -> str:
    """Say that the run's time limit left repeats out, if it did."""
    texts = (run.parameters.get(name, "") for name in ("repeats", "time_limit_s"))
    repeats, limit_s = (int(text) if text.isdecimal() else 0 for text in texts)
    made = {(one.approach, one.repeat) for one in run.attempts}
    left_out = all((one.approach.name, repeats) not in made for one in single)
    if repeats < 2 or not limit_s or run.stopped or not left_out:
        return ""
    return f", as the time limit of {limit_s} s left no room for a repeat"


def _which(some: Sequence[Summary], summaries: Sequence[Summary]) -> str:
    """Name approaches, or say that they are all."""
    if len(some) == len(summaries):
        return "every approach"
    return ", ".join(summary.approach.title for summary in some)


def _held_at_first(summary: Summary) -> float:
    """Return the least share of the database that the flash cache held when measuring began."""
    caches = [one.cache for one in summary.attempts if one.cache]
    return min((one.gauges.get("cached_share_before", 1.0) for one in caches), default=1.0)


def ceiling(summaries: Sequence[Summary]) -> str:
    """Say what the ratio of everything on flash really is."""
    value = ratio(summaries, "all-on-flash")
    if value is None:
        return ""
    top = next(s for s in summaries if s.approach.name == "all-on-flash")
    return (
        f"Everything on flash over the baseline ({figure(value)}) is a setting, not a discovery: "
        "it is what this machine's processors can do over what the chosen array can, and would "
        f"change with one spindle more. There the server used {percent(top.server_cpu_share)} of "
        "the processors."
    )


def _joined(parts: Sequence[str]) -> str:
    """Join with commas and a last "and"."""
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
