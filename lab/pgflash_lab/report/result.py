# SPDX-License-Identifier: PostgreSQL
"""The result of a run as one small JSON-ready dictionary, for programs.

Its keys are stable, and documented in docs/reference/result.md; add, never rename.
"""

from collections.abc import Sequence
from typing import Any

from pgflash_lab.model.paper import paper_figure
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import Summary, base_of, paired_ratio, ratio, summarize


def result(run: Run) -> dict[str, Any]:
    """Return the results of the run: approaches, ratios, devices."""
    summaries = summarize(run)
    pairs = ratio_pairs(summaries)
    return {
        "run": run.id,
        "scenario": run.scenario,
        "paper": run.paper,
        "preset": run.preset,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "stopped": run.stopped,
        "pgflash_version": run.pgflash_version,
        "postgres_version": run.postgres_version,
        "machine": run.machine,
        "parameters": run.parameters,
        "database_bytes": run.database_bytes,
        "emulated_devices": [device.name for device in run.emulated_devices],
        "devices": {
            device.role: {
                "name": device.title,
                "emulated": device.emulated,
                "summary": device.summary,
            }
            for device in run.devices
        },
        "approaches": {summary.approach.name: _approach(summary) for summary in summaries},
        "ratios": {
            name: value
            for name, over, under in pairs
            if (value := ratio(summaries, over, under)) is not None
        },
        "paired_ratios": {
            name: value
            for name, over, under in pairs
            if (value := paired_ratio(run, over, under)) is not None
        },
        "paper_ratios": {
            summary.approach.name: figure.ratio
            for summary in summaries
            if run.paper == "000" and (figure := paper_figure(summary.approach.name)) is not None
        },
        "polluted": [
            {"approach": a.approach, "repeat": a.repeat, "why": a.polluted}
            for a in run.attempts
            if a.polluted
        ],
    }


def ratio_pairs(summaries: Sequence[Summary]) -> list[tuple[str, str, str]]:
    """Return the ratios in a result: name, approach above, approach below."""
    names = [summary.approach.name for summary in summaries]
    bases = {summary.approach.name: base_of(summary.approach) for summary in summaries}
    pairs = [(name, base) for name, base in bases.items() if base in names and base != name]
    if "all-on-flash" in names and "wal-and-cache" in names:
        pairs.append(("wal-and-cache", "all-on-flash"))
    return [(f"{over}/{under}", over, under) for over, under in pairs]


def _approach(summary: Summary) -> dict[str, Any]:
    """Return the figures of one approach, all of them medians over its attempts."""
    return {
        "title": summary.approach.title,
        "data": summary.approach.data,
        "wal": summary.approach.wal,
        "cache": summary.approach.cache,
        "temp": summary.approach.temp,
        "archive": summary.approach.archive,
        "objects": list(summary.approach.objects),
        "keep": list(summary.approach.keep),
        "base": base_of(summary.approach),
        "changes": summary.approach.changes,
        "attempts": len(summary.attempts),
        "polluted": summary.polluted,
        "tpm": summary.tpm,
        "nopm": summary.nopm,
        "nopm_counted": summary.nopm_counted,
        "workload": summary.middle.workload,
        "duration_s": summary.duration_s,
        "facts": summary.middle.facts,
        "p50_ms": summary.p50_ms,
        "p95_ms": summary.p95_ms,
        "p99_ms": summary.p99_ms,
        "read_ms": summary.read_ms,
        "reads_per_transaction": summary.reads_per_transaction,
        "hit_ratio": summary.hit_ratio,
        "server_cpu_ms_per_transaction": summary.server_cpu_ms_per_transaction,
        "server_cpu_user_ms_per_transaction": summary.server_cpu_user_ms_per_transaction,
        "server_cpu_system_ms_per_transaction": summary.server_cpu_system_ms_per_transaction,
        "server_cpu_share": summary.server_cpu_share,
        "foreign_cpu_share": summary.foreign_cpu_share,
        "spread": summary.spread,
        "tpm_of_attempts": [attempt.tpm for attempt in summary.attempts],
    }
