# SPDX-License-Identifier: PostgreSQL
"""Predictions for a run of the lab, beside the run's measurements.

A prediction is based on the baseline's own report, the devices' profiles, and the definition of the
approach (its places for data, WAL, temporary files and objects, the size of its cache).  No
measurement of the approach itself is used, with one exception that is not a property of it: the
CPU time that other programs took meanwhile, since polluted attempts are the rule on a shared
machine.  The hit ratio of a cache comes from a miss-ratio curve, if a report of the baseline, or of
an approach with another size of cache, has one; otherwise from its size.
"""

from collections.abc import Mapping
from dataclasses import replace

from pgflash.advise.hot import choose_named, hot_tables
from pgflash.advise.media import Drive
from pgflash.advise.model import Model, Target
from pgflash.advise.sizes import COVERED, covered_hits, hits_of
from pgflash.advise.work import NoAdviceError, Work, work_of_report
from pgflash.model.advice import PredictionCheck, PredictionChecks
from pgflash.model.awr import AwrReport
from pgflash.model.words import listed, percent
from pgflash_lab.analyze.drives import drive_of_run
from pgflash_lab.model.run import Approach, Attempt, Run
from pgflash_lab.model.summary import Summary, base_of, summarize

FLASH = "flash"
#: The tablespace that the lab makes on flash for servers whose data is on the array.
_OWN_FLASH = frozenset({"on_flash"})
_AUTO = ("auto",)
#: The workload in which each table has its own clients.
_OWN_CLIENTS = "micro"
#: Changes that do not change the load.
_SIZES = frozenset({"cache_size", "cache_times"})


def predict_run(run: Run, reports: Mapping[str, AwrReport]) -> PredictionChecks:
    """Predict each approach of a run from its base; reports are by approach."""
    summaries = {one.approach.name: one for one in summarize(run)}
    rows = []
    for name, summary in summaries.items():
        base = _base(summary, summaries)
        if base is not None and base.approach.name != name and base.tpm > 0:
            rows.append(_check(run, base, summary, reports))
    return PredictionChecks(rows=tuple(rows))


def bases_of(run: Run) -> frozenset[str]:
    """Return the approaches from whose reports others are predicted."""
    summaries = {one.approach.name: one for one in summarize(run)}
    found = (_base(one, summaries) for one in summaries.values())
    return frozenset(one.approach.name for one in found if one is not None)


def _base(summary: Summary, summaries: Mapping[str, Summary]) -> Summary | None:
    """Return an approach's base: the one it names, else the plain one with the same load."""
    approach = summary.approach
    if approach.base:
        return summaries.get(approach.base)
    plain = [one for one in summaries.values() if _is_plain(one.approach)]
    same = [one for one in plain if not _differing(one.approach, approach)]
    return next(iter(same), summaries.get(base_of(approach)))


def _is_plain(approach: Approach) -> bool:
    moved = FLASH in (approach.data, approach.wal, approach.temp)
    return not moved and not approach.cache and not approach.objects


def _check(
    run: Run, base: Summary, summary: Summary, reports: Mapping[str, AwrReport]
) -> PredictionCheck:
    predicted, note = (
        None,
        _why_not(summary.middle.workload, base.approach, summary.approach, reports),
    )
    if not note:
        try:
            predicted, note = _predict(run, base, summary, reports)
        except NoAdviceError as error:
            note = error.message
    return PredictionCheck(
        case=summary.approach.name,
        title=summary.approach.title,
        predicted=predicted,
        measured=summary.tpm / base.tpm,
        note=note if predicted is not None else f"not predicted: {note}",
    )


def _why_not(
    workload: str, base: Approach, approach: Approach, reports: Mapping[str, AwrReport]
) -> str:
    """Say why a report on a different load or server cannot be used for a prediction."""
    if workload == _OWN_CLIENTS:
        return "each of its tables has clients of its own, the model knows one kind of client"
    if base.name not in reports:
        return f"there is no report of {base.title}"
    differ = _differing(base, approach)
    return f"its load differs ({', '.join(differ)})" if differ else ""


def _differing(one: Approach, other: Approach) -> list[str]:
    """Return the parameters in which two loads differ."""
    keys = sorted({*one.changes, *other.changes} - _SIZES)
    return [key for key in keys if one.changes.get(key) != other.changes.get(key)]


def _predict(
    run: Run,
    base: Summary,
    summary: Summary,
    reports: Mapping[str, AwrReport],
) -> tuple[float, str]:
    work = work_of_report(reports[base.approach.name], flash_tablespaces=_OWN_FLASH)
    target, note = _target(run, summary, work, reports)
    attempt = base.middle
    if base.approach.archive and base.approach.archive != FLASH:
        work = _with_archive(work, attempt)
    measured_s = max(attempt.cpu.elapsed_s, 1e-9)
    background = max(attempt.cpu.server_s / measured_s - work.busy_s / work.elapsed_s, 0.0)
    driver = attempt.cpu.driver_s / measured_s

    def model(foreign_share: float) -> Model:
        return Model(
            work,
            array=drive_of_role(run, "array"),
            flash=drive_of_role(run, FLASH),
            cores=float(attempt.cpu.cores),
            other_cores=background + driver + foreign_share * attempt.cpu.cores,
        )

    # The present is the baseline as measured, whatever others took from it.
    present = model(base.foreign_cpu_share).present.per_s
    found = model(summary.foreign_cpu_share).predict(target)
    return found.per_s / present, f"{note}; then limited by {found.limit}"


def _target(
    run: Run, summary: Summary, work: Work, reports: Mapping[str, AwrReport]
) -> tuple[Target, str]:
    """Return what an approach has on flash, and the source of its cache's hit ratio."""
    approach = summary.approach
    everything = approach.data == FLASH
    reads = writes = 1.0 if everything else 0.0
    cached, note = 0.0, "placement"
    if approach.objects and not everything:
        named = approach.objects
        if named == _AUTO:
            named = hot_tables(work, flash=drive_of_role(run, FLASH))
        reads, writes = choose_named(work, named)
        note = f"{percent(reads)} of the reads are of {listed(named)}"
    if approach.cache and not everything:
        cached, note = _hits(run, summary, work, reports)
    target = Target(
        name=approach.name,
        title=approach.title,
        wal=approach.wal == FLASH,
        temp=(approach.temp or approach.data) == FLASH,
        archive=approach.archive == FLASH,
        reads=reads,
        writes=writes,
        cached=cached,
    )
    return target, note


def _with_archive(work: Work, attempt: Attempt) -> Work:
    """Add the archive's traffic: what the array moved in excess of the server."""
    moved = attempt.devices.get("array", {})
    mine = work.reads.bytes + work.system_reads.bytes + work.temp.bytes
    return replace(
        work,
        archive_read_bytes=max(moved.get("read_bytes", 0.0) - mine, 0.0),
        archive_write_bytes=max(moved.get("write_bytes", 0.0) - work.write_bytes, 0.0),
    )


def drive_of_role(run: Run, role: str) -> Drive:
    """Return one of a run's devices."""
    for device in run.devices:
        if device.role == role:
            return drive_of_run(device)
    raise NoAdviceError(f"the run has no device {role}")


def _hits(
    run: Run, summary: Summary, work: Work, reports: Mapping[str, AwrReport]
) -> tuple[float, str]:
    cache = summary.middle.cache
    size = float(cache.size_bytes) if cache else 0.0
    database = float(run.database_bytes)
    mine = hits_of(work, database)
    if mine is not None:
        return mine.of(size), "hit ratio from the baseline's miss-ratio curve"
    if size >= database > 0:
        return COVERED, "the cache holds the whole database"
    for other in summarize(run):
        theirs = other.middle.cache
        report = reports.get(other.approach.name)
        if report is None or theirs is None or theirs.size_bytes == size:
            continue
        known = hits_of(work_of_report(report), database)
        if known is not None:
            return known.of(size), f"hit ratio from the curve of {other.approach.title}"
    return covered_hits(size, float(run.database_bytes)), "hit ratio from the cache's size alone"
