# SPDX-License-Identifier: PostgreSQL
"""The part of a run that a prediction reads, kept as a small run that fits into a repository.

Of each attempt it has the figures with which predictions are compared. Of the server's own reports
it has those of baselines and those with a miss-ratio curve, with only the tables that advice reads.
predict_run() returns exactly the same for the kept run as for the whole one.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pgflash.advise.work import TABLES
from pgflash.model.awr import AwrReport
from pgflash_lab import store
from pgflash_lab.analyze.check import bases_of
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import summarize


def keep_predictable(folder: Path, run: Run, reports: Mapping[str, AwrReport]) -> None:
    """Write what predict_run() needs into a folder, replacing its content."""
    store.make_folder(folder)
    for old in (*folder.glob("awr-*.json"), *folder.glob(store.RUN_FILE)):
        old.unlink()
    attempts = [
        replace(
            attempt,
            seconds=(),
            cpu_seconds=(),
            cache_seconds=(),
            disk_seconds=(),
            host_seconds=(),
            waits=(),
            steps=(),
            by_transaction=(),
        )
        for attempt in run.attempts
    ]
    small = replace(run, attempts=tuple(attempts))
    store.write_run(folder, small)
    for place, name in _read(small, reports):
        kept = tuple(t for t in reports[name].tables if t.id in TABLES)
        report = replace(reports[name], tables=kept, findings=())
        store.write_period(folder, store.attempt_name(place, name), report)


def _read(run: Run, reports: Mapping[str, AwrReport]) -> list[tuple[int, str]]:
    """Return the approaches whose reports are read, with the position of their middle attempt."""
    bases = bases_of(run)
    found = []
    for summary in summarize(run):
        name = summary.approach.name
        if name in reports and (name in bases or _has_curve(reports[name])):
            place = next(i for i, one in enumerate(run.attempts) if one is summary.middle)
            found.append((place, name))
    return found


def _has_curve(report: AwrReport) -> bool:
    return any(table.id == "flash-cache-advice" and table.rows for table in report.tables)
