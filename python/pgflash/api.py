# SPDX-License-Identifier: PostgreSQL
"""pgflash as a library: read a stored run, say what it came to, make its report.

run = read_run(Path("out/demo/run.json"))
result(run)["ratios"]["flash-cache/baseline"]
Path("report.html").write_text(render_report(run))
"""

from datetime import datetime
from pathlib import Path

from pgflash.collect import collect, system_identifier
from pgflash.model.run import Run
from pgflash.model.snapshot import SnapshotHead, SnapshotStore
from pgflash.model.stored import StoredRunError, run_from_json
from pgflash.model.summary import summarize
from pgflash.report import render_page as render_report
from pgflash.report import result, sentences
from pgflash.session import connect
from pgflash.store import FileStore, OpenStore, PgStore, open_store

__all__ = [
    "OpenStore",
    "collect_snapshot",
    "open_store",
    "read_run",
    "render_report",
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
