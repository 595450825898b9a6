# SPDX-License-Identifier: PostgreSQL
"""A run in words, before any table or chart.

Sentences are cautious: a spread wider than the difference, an attempt marked polluted or a run that
was stopped is mentioned beside the figure that it weakens.
"""

from collections.abc import Sequence

from pgflash.model.words import percent
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import Summary, base_of, paired_ratio, ratio

#: The effect of an approach on a server, as the end of "the server did N times ...".
MEANS = {
    "flash-cache": "with the flash cache",
    "wal-on-flash": "with the WAL on flash",
    "wal-and-cache": "with the WAL on flash and the flash cache",
    "hot-objects": "with the WAL and the hottest table on flash",
    "all-on-flash": "with everything on flash",
}


def headline(run: Run, summaries: Sequence[Summary]) -> str:
    """Return the result in one sentence."""
    known = {summary.approach.name: summary for summary in summaries}
    parts: dict[str, list[str]] = {}
    for summary in summaries:
        approach = summary.approach
        value = ratio(summaries, approach.name)
        if value is None or base_of(approach) == approach.name:
            continue
        means = MEANS.get(approach.name, f"as “{approach.title}”")
        parts.setdefault(base_of(approach), []).append(f"{value:.2f} times {means}")
    if not parts:
        return "This run has no approach to compare with a baseline yet."
    where = "on emulated devices " if run.emulated_devices else ""
    said = [
        f"against {_base_pace(known[base])}, the same server {where}did {_joined(those)}"
        for base, those in parts.items()
    ]
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def _base_pace(base: Summary) -> str:
    """Say how fast the baseline was, in the terms of its workload."""
    if base.duration_s:
        return f"{base.duration_s:,.1f} seconds as “{base.approach.title}”"
    what = "transactions" if base.middle.workload == "oltp" else "operations"
    where = "with everything on the array" if _is_plain(base) else f"as “{base.approach.title}”"
    return f"{base.tpm:,.0f} {what} a minute {where}"


def _is_plain(summary: Summary) -> bool:
    approach = summary.approach
    return {approach.data, approach.wal} == {"array"} and not approach.cache


def second_line(run: Run, summaries: Sequence[Summary]) -> str:
    """Return how near the cache comes to having everything on flash, or an empty text."""
    near = paired_ratio(run, "wal-and-cache", "all-on-flash")
    if near is None:
        return ""
    cpu_ms = {s.approach.name: s.server_cpu_ms_per_transaction for s in summaries}
    return (
        f"WAL on flash and the flash cache together reach {percent(near)} of the throughput of "
        "everything on flash (median of the paired repeats), at "
        f"{cpu_ms['wal-and-cache']:.2f} ms of server CPU a transaction against "
        f"{cpu_ms['all-on-flash']:.2f} ms."
    )


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
    polluted = [summary.approach.title for summary in summaries if summary.polluted]
    if polluted:
        whose = "every approach" if len(polluted) == len(summaries) else ", ".join(polluted)
        found.append(
            f"Other programs took much of the processors in every attempt of {whose}. These "
            "figures are marked, and not to be relied on."
        )
    found.extend(
        f"{summary.approach.title}: its repeats differ by {percent(summary.spread)}."
        for summary in summaries
        if summary.spread > 0.1
    )
    single = [summary for summary in summaries if len(summary.attempts) == 1]
    if single:
        which = (
            "every approach"
            if len(single) == len(summaries)
            else ", ".join(s.approach.title for s in single)
        )
        found.append(f"Measured only once: {which}.")
    return found


def ceiling(summaries: Sequence[Summary]) -> str:
    """Say what the ratio of everything on flash really is."""
    value = ratio(summaries, "all-on-flash")
    if value is None:
        return ""
    top = next(s for s in summaries if s.approach.name == "all-on-flash")
    return (
        f"Everything on flash over the baseline ({value:.2f}) is a setting, not a discovery: it is "
        "what this machine's processors can do over what the chosen array can, and would change "
        f"with one spindle more. There the server used {percent(top.server_cpu_share)} of the "
        "processors."
    )


def _joined(parts: Sequence[str]) -> str:
    """Join with commas and a last "and"."""
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
