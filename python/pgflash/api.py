# SPDX-License-Identifier: PostgreSQL
"""pgflash as a library: reports on a server's periods, and on runs of the lab.

with open_store(dsn="dbname=app") as store:
    report = report_period(store, begin="2026-11-22T10:00", end="last")
report.table("top-events").rows
Path("report.html").write_text(render_period(report, "html"))

run = read_run(Path("out/demo/run.json"))
result(run)["ratios"]["flash-cache/baseline"]
Path("report.html").write_text(render_report(run))
"""

from datetime import datetime
from pathlib import Path

from pgflash.analyze import compare, make_period, make_report
from pgflash.collect import collect, system_identifier
from pgflash.errors import UsageError
from pgflash.model.awr import AwrReport
from pgflash.model.run import Run
from pgflash.model.snapshot import SnapshotHead, SnapshotStore, find_head
from pgflash.model.stored import StoredRunError, run_from_json
from pgflash.model.summary import summarize
from pgflash.report import render_page as render_report
from pgflash.report import result, sentences
from pgflash.report.awr import FORMS, Form, report_from_json
from pgflash.report.awr import render as render_period
from pgflash.report.awr import render_html as render_period_page
from pgflash.report.awr.stored import StoredReportError
from pgflash.session import connect
from pgflash.store import FileStore, OpenStore, PgStore, open_store

__all__ = [
    "FORMS",
    "Form",
    "OpenStore",
    "collect_snapshot",
    "compare",
    "open_store",
    "read_period",
    "read_run",
    "render_period",
    "render_period_page",
    "render_report",
    "report_period",
    "result",
    "sentences_of",
    "take_snapshot",
]


def take_snapshot(
    *, dsn: str | None = None, drop_before: datetime | None = None
) -> tuple[SnapshotHead, int]:
    """Have a server with the extension take a snapshot; return it, and how many were dropped."""
    with PgStore(dsn or "") as store:
        taken = store.take()
        dropped = 0 if drop_before is None else store.drop(drop_before)
        return _head(store, taken), dropped


def collect_snapshot(
    *, dsn: str | None = None, path: Path, drop_before: datetime | None = None
) -> tuple[SnapshotHead, int]:
    """Collect a snapshot of any server into a file; return it, and how many were dropped."""
    with connect(dsn or "") as connection, FileStore.create(path) as store:
        cluster = system_identifier(connection)
        with store.adding(cluster) as last:
            taken = store.add(collect(connection, last, cluster=cluster))
        dropped = 0 if drop_before is None else store.drop(drop_before)
        return _head(store, taken), dropped


def _head(store: SnapshotStore, snapshot_id: int) -> SnapshotHead:
    return next(head for head in store.list() if head.id == snapshot_id)


def report_period(
    store: SnapshotStore, *, begin: str = "", end: str = "", every_row: bool = False
) -> AwrReport:
    """Return the report on the period between two snapshots, named as find_head() reads them.

    Without an end it is the last snapshot, without a begin the one before the end.  Rankings
    have their first rows only, or every row: then a comparison knows what is new and gone.
    """
    heads = store.list()
    last = find_head(heads, end or "last", store=store.name)
    first = find_head(heads, begin, store=store.name) if begin else _before(heads, last, store.name)
    period = make_period(store, first.id, last.id)
    return make_report(period, rows_max=None) if every_row else make_report(period)


def _before(heads: tuple[SnapshotHead, ...], last: SnapshotHead, store: str) -> SnapshotHead:
    earlier = [head for head in heads if head.id < last.id]
    if not earlier:
        raise UsageError(
            f"there is no snapshot before {last.id} in {store}",
            hint="A period needs two: take another with pgflash snapshot.",
        )
    return earlier[-1]


def read_period(path: Path) -> AwrReport:
    """Return the report that was written to a file as JSON."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoredReportError(
            f'could not read "{path}": {error.strerror}',
            hint="Name a file that 'pgflash report --format json' wrote.",
        ) from error
    return report_from_json(text, name=str(path))


def read_run(path: Path) -> Run:
    """Return the run that a file holds."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoredRunError(
            f'could not read "{path}": {error.strerror}',
            hint="Name a run of 'pgflash lab show', its directory, or its run.json.",
        ) from error
    return run_from_json(text, name=str(path))


def sentences_of(run: Run) -> list[str]:
    """Return what the run says in words, as the report's head does."""
    summaries = summarize(run)
    said = [sentences.headline(run, summaries), sentences.second_line(run, summaries)]
    return [sentence for sentence in (*said, *sentences.cautions(run, summaries)) if sentence]
