# SPDX-License-Identifier: PostgreSQL
"""What a prediction reads of a run, kept as a run of its own: small enough for a repository.

Of each attempt the figures that predictions are set beside; of the server's own reports those
of baselines and those with a miss-ratio curve, and of them the tables that advice reads.
predict_run() says of the kept run just what it says of the whole one.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pgflash.advise.check import bases_of
from pgflash.advise.work import TABLES
from pgflash.lab import store
from pgflash.model.awr import AwrReport
from pgflash.model.run import Run
from pgflash.model.summary import summarize


def keep_predictable(folder: Path, run: Run, reports: Mapping[str, AwrReport]) -> None:
    """Write into a folder what predict_run() needs, in the place of what it holds."""
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
    """Return the approaches whose reports are read, with the place of their middle attempt."""
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
