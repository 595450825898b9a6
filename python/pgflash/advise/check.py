# SPDX-License-Identifier: PostgreSQL
"""Predictions of a run of the lab, beside what the run measured.

What is predicted from: the baseline's own report, the devices' profiles, and what the
approach is (its place for data, WAL, temporary files and objects, the size of its cache).
Nothing that the approach itself measured goes in, with one exception that is no property of
it: the processors that other programs took meanwhile, since a polluted attempt is the rule
on a shared machine.  The hit ratio of a cache comes from a miss-ratio curve if a report
of the baseline, or of an approach with another size of cache, has one; else from its size.
"""

from collections.abc import Mapping

from pgflash.advise.media import drive_of_run
from pgflash.advise.model import Model, Target
from pgflash.advise.sizes import COVERED, covered_hits, curve_hits
from pgflash.advise.work import NoAdviceError, Work, work_of_report
from pgflash.model.advice import PredictionCheck, PredictionChecks
from pgflash.model.awr import AwrReport
from pgflash.model.run import Approach, Run
from pgflash.model.summary import Summary, summarize

FLASH = "flash"


def predict_run(run: Run, reports: Mapping[str, AwrReport]) -> PredictionChecks:
    """Predict each approach of a run from its baseline; reports are by approach."""
    summaries = {one.approach.name: one for one in summarize(run)}
    rows = []
    for name, summary in summaries.items():
        base = _baseline(summary.approach, summaries)
        if base is None or base.approach.name == name:
            continue
        rows.append(_check(run, base, summary, reports))
    return PredictionChecks(rows=tuple(rows))


def _baseline(approach: Approach, summaries: Mapping[str, Summary]) -> Summary | None:
    """Return the approach with everything on the array that this one differs from."""
    return next((one for one in summaries.values() if _is_plain(one.approach)), None)


def _is_plain(approach: Approach) -> bool:
    return approach.data != FLASH and approach.wal != FLASH and not approach.cache


def _check(
    run: Run, base: Summary, summary: Summary, reports: Mapping[str, AwrReport]
) -> PredictionCheck:
    measured = summary.tpm / base.tpm if base.tpm > 0 else 0.0
    title = summary.approach.title
    report = reports.get(base.approach.name)
    if report is None or measured <= 0:
        return PredictionCheck(
            case=summary.approach.name,
            title=title,
            predicted=None,
            measured=measured,
            note=f"not predicted: there is no report of {base.approach.title}",
        )
    try:
        predicted, note = _predict(run, base, summary, report, reports)
    except NoAdviceError as error:
        return PredictionCheck(
            case=summary.approach.name,
            title=title,
            predicted=None,
            measured=measured,
            note=f"not predicted: {error.message}",
        )
    return PredictionCheck(
        case=summary.approach.name, title=title, predicted=predicted, measured=measured, note=note
    )


def _predict(
    run: Run,
    base: Summary,
    summary: Summary,
    report: AwrReport,
    reports: Mapping[str, AwrReport],
) -> tuple[float, str]:
    work = work_of_report(report)
    drives = {device.role: drive_of_run(device) for device in run.devices}
    target, note = _target(run, summary, work, reports)
    attempt = base.middle
    background = max(attempt.cpu.server_s / attempt.cpu.elapsed_s - work.cpu_s / work.elapsed_s, 0)
    driver = attempt.cpu.driver_s / attempt.cpu.elapsed_s

    def model(foreign_share: float) -> Model:
        return Model(
            work,
            array=drives["array"],
            flash=drives[FLASH],
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
    """Return what an approach has on flash, and how its cache's hit ratio is known."""
    approach = summary.approach
    everything = approach.data == FLASH
    share = 1.0 if everything else 0.0
    cached, note = 0.0, "placement"
    if approach.cache and not everything:
        cached, note = _hits(run, summary, work, reports)
    target = Target(
        name=approach.name,
        title=approach.title,
        wal=approach.wal == FLASH,
        temp=everything,
        reads=share,
        writes=share,
        cached=cached,
    )
    return target, note


def _hits(
    run: Run, summary: Summary, work: Work, reports: Mapping[str, AwrReport]
) -> tuple[float, str]:
    cache = summary.middle.cache
    size = float(cache.size_bytes) if cache else 0.0
    if work.curve:
        return curve_hits(work.curve, size), "hit ratio from the baseline's miss-ratio curve"
    if size >= run.database_bytes > 0:
        return COVERED, "the cache holds the whole database"
    for other in summarize(run):
        theirs = other.middle.cache
        report = reports.get(other.approach.name)
        if report is None or theirs is None or theirs.size_bytes == size:
            continue
        curve = work_of_report(report).curve
        if curve:
            return curve_hits(curve, size), f"hit ratio from the curve of {other.approach.title}"
    return covered_hits(size, float(run.database_bytes)), "hit ratio from the cache's size alone"
