# SPDX-License-Identifier: PostgreSQL
"""The part of a run that a prediction reads, kept as a small run that fits into a repository.

Of each attempt it has the figures with which predictions are compared. Of the server's own reports
it has those of baselines and those with a miss-ratio curve, with only the tables that advice reads.
predict_run() returns exactly the same for the kept run as for the whole one.

The files are the run's own in fewer lines: what fits into one line is in one line, such as a row
of a table.  A difference between two versions then shows which row became another.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pgflash.advise.work import TABLES
from pgflash.model.awr import AwrReport
from pgflash.report.awr.stored import report_to_json
from pgflash_lab import store
from pgflash_lab.analyze.check import bases_of
from pgflash_lab.model.run import Run
from pgflash_lab.model.stored import run_to_json
from pgflash_lab.model.summary import summarize

#: The longest line of a value with parts: a row of the widest table fits into it.
LINE_MAX = 400


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
            devices={role: _moved(counters) for role, counters in attempt.devices.items()},
            facts={},
            consistency=(),
        )
        for attempt in run.attempts
    ]
    small = replace(run, attempts=tuple(attempts))
    store.write_file(folder / store.RUN_FILE, _in_few_lines(run_to_json(small)))
    for place, name in _read(small, reports):
        kept = tuple(t for t in reports[name].tables if t.id in TABLES)
        report = replace(reports[name], tables=kept, findings=())
        file = store.period_file(folder, store.attempt_name(place, name))
        store.write_file(file, _in_few_lines(report_to_json(report).encode()))


def _moved(counters: Mapping[str, float]) -> dict[str, float]:
    """Return what a device moved; how it did it is read by no prediction."""
    return {name: counters[name] for name in ("read_bytes", "write_bytes") if name in counters}


def _in_few_lines(text: bytes) -> bytes:
    """Return the same JSON with each value in one line that fits into it."""
    return "\n".join(_lines(json.loads(text), "", "")).encode() + b"\n"


def _lines(value: object, indent: str, name: str) -> Iterator[str]:
    """Yield the lines of a value; NAME is its key with a colon, or empty."""
    line = indent + name + json.dumps(value, ensure_ascii=False)
    if len(line) <= LINE_MAX or not isinstance(value, dict | list):
        yield line
        return
    if isinstance(value, dict):
        begin, end = "{}"
        parts = [(json.dumps(key) + ": ", part) for key, part in value.items()]
    else:
        begin, end = "[]"
        parts = [("", part) for part in value]
    yield indent + name + begin
    for place, (key, part) in enumerate(parts, start=1):
        *before, last = _lines(part, indent + " ", key)
        yield from before
        yield last + ("," if place < len(parts) else "")
    yield indent + end


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
