# SPDX-License-Identifier: PostgreSQL
"""The lab's runs: what is in a store, and the pages of each run.

A run's file is read again only if it has changed.  The pages are those that a run writes, under the
names that it gives them; a name is looked up in the folder of a run that the store lists, so no
path can lead elsewhere, and symbolic links are not followed.  The store may be somebody else's:
nothing but a file is opened, so that no pipe holds the page up.

A page is shown under a Content-Security-Policy of its own, which allows less than ours: no script,
no form, nothing loaded from anywhere, and only styles in its head, by their hash.  See
docs/decisions/0029.
"""

import base64
import contextlib
import hashlib
import re
import threading
from collections import OrderedDict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pgflash.errors import PgflashError
from pgflash_lab import api
from pgflash_lab.journal import PROGRESS_FILE, Progress, progress_of
from pgflash_lab.model.lab_view import LabView, RunApproach, RunLink, RunProgress, RunView
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import base_of, ratio, summarize
from pgflash_lab.store import PAPER_FILE, REPORT_FILE, RUN_FILE, Store, read_plain, state_of

RUNS_MAX = 100
PAGE_MAX_BYTES = 32 * 2**20

_PAGE = re.compile(r"(report|paper|(awr|compare)-[A-Za-z0-9_-]{1,80})\.html")
_FILE = re.compile(r"(run|result|paper)\.json")
_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)

_PAGE_CSP = (
    "default-src 'none'; style-src {styles}; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-same-origin"
)


class NoSuchRunError(PgflashError):
    """There is no such run, or no such file of it."""


class Shelf:
    """Shows the runs of a store."""

    def __init__(self, root: Path) -> None:
        """Use the folder that keeps runs."""
        self._store = Store(root=root)
        self._known: OrderedDict[str, tuple[tuple[int, int], RunView]] = OrderedDict()
        self._turn = threading.Lock()

    def runs(self) -> LabView:
        """Return the newest runs; this reads files, so keep it out of the event loop."""
        with self._turn:
            ids = self._ids()
            shown = tuple(self._run(one) for one in ids[:RUNS_MAX])
        missing = {}
        if not ids:
            missing["runs"] = (
                f'there is none in "{self._store.root}": make one with pgflash lab run, or name '
                "its store with pgflash serve --store"
            )
        return LabView(store=str(self._store.root), runs_all=len(ids), runs=shown, missing=missing)

    def page(self, run_id: str, name: str) -> tuple[bytes, str]:
        """Return a page of a run, and the policy under which it is shown."""
        content = self._content(run_id, name, _PAGE)
        return content, page_policy(content)

    def file(self, run_id: str, name: str) -> bytes:
        """Return a file of a run, for programs."""
        return self._content(run_id, name, _FILE)

    # ---- files

    def _ids(self) -> list[str]:
        """Return the ids of all runs, the newest first, also of runs without an attempt yet."""
        begun = {
            path.parent.name
            for name in (RUN_FILE, PROGRESS_FILE)
            for path in self._store.runs.glob(f"*/{name}")
        }
        return sorted(begun, reverse=True)

    def _content(self, run_id: str, name: str, names: re.Pattern[str]) -> bytes:
        folder = self._store.folder(run_id)
        if names.fullmatch(name) and run_id in self._ids():
            with contextlib.suppress(OSError):
                return read_plain(folder / name, PAGE_MAX_BYTES)
        raise NoSuchRunError("There is no such page of a run.")

    # ---- runs

    def _run(self, run_id: str) -> RunView:
        folder = self._store.folder(run_id)
        progress = progress_of(folder)
        view = replace(self._stored(run_id, folder), pages=_pages(folder), files=_files(folder))
        if progress is None:
            return view
        return replace(view, state="running", why="", progress=_progress(progress))

    def _stored(self, run_id: str, folder: Path) -> RunView:
        path = folder / RUN_FILE
        try:
            facts = path.lstat()
        except OSError:
            return RunView(id=run_id, state="not finished", why="it has no attempt")
        seen = (facts.st_mtime_ns, facts.st_size)
        known = self._known.get(run_id)
        if known is not None and known[0] == seen:
            self._known.move_to_end(run_id)
            return known[1]
        try:
            view = _view(run_id, api.read_run(path))
        except PgflashError as error:
            view = RunView(id=run_id, state="unreadable", why=error.message)
        self._known[run_id] = (seen, view)
        while len(self._known) > RUNS_MAX:
            self._known.popitem(last=False)
        return view


def page_policy(content: bytes) -> str:
    """Return the policy under which a page of a run is shown."""
    hashes = sorted(
        {
            f"'sha256-{base64.b64encode(hashlib.sha256(style).digest()).decode()}'"
            for style in _STYLE.findall(content.partition(b"</head>")[0])
        }
    )
    return _PAGE_CSP.format(styles=" ".join(hashes) or "'none'")


def _view(run_id: str, run: Run) -> RunView:
    state, _colon, _why = state_of(run).partition(":")
    repeats = run.parameters.get("repeats", "1")
    summaries = summarize(run)
    return RunView(
        id=run_id,
        state=state,
        why=run.stopped,
        scenario=run.scenario,
        title=run.title,
        preset=run.preset,
        paper=run.paper,
        started_at=run.started_at,
        ended_at=run.ended_at,
        attempts=len({(one.approach, one.repeat) for one in run.attempts}),
        planned=len(run.approaches) * (int(repeats) if repeats.isdecimal() else 1),
        emulated=bool(run.emulated_devices),
        sentences=tuple(api.sentences_of(run)) if summaries else (),
        approaches=tuple(
            RunApproach(
                name=one.approach.name,
                title=one.approach.title,
                attempts=len(one.attempts),
                tpm=one.tpm,
                duration_s=one.duration_s,
                p95_ms=one.p95_ms,
                read_ms=one.read_ms,
                hit_ratio=one.hit_ratio,
                ratio=ratio(summaries, one.approach.name)
                if base_of(one.approach) != one.approach.name
                else None,
            )
            for one in summaries
        ),
    )


def _progress(progress: Progress) -> RunProgress:
    """Return a progress as of now: time has passed since it was written."""
    now = datetime.now(UTC)
    since_s = (now - datetime.fromisoformat(progress.at)).total_seconds() if progress.at else 0.0
    left_s = None if progress.left_s is None else max(progress.left_s - max(since_s, 0.0), 0.0)
    done_s = (now - datetime.fromisoformat(progress.began_at)).total_seconds()
    whole_s = max(done_s, 0.0) + (left_s or 0.0)
    return RunProgress(
        began_at=progress.began_at,
        stage=progress.stage,
        stage_began_at=progress.stage_began_at,
        stage_expected_s=progress.stage_expected_s,
        left_s=left_s,
        share=None if left_s is None or whole_s <= 0 else max(done_s, 0.0) / whole_s,
        attempt_notes=progress.notes,
        attempt=progress.attempt,
        counted=progress.counted,
        seconds=progress.seconds,
    )


_TITLES = {REPORT_FILE: "Report", PAPER_FILE: "Beside the paper"}


def _pages(folder: Path) -> tuple[RunLink, ...]:
    """Return the pages of a run: its report first, then the paper's, comparisons, servers."""
    order = ("report", "paper", "compare", "awr")
    names = _names(folder, _PAGE)
    names.sort(key=lambda name: (order.index(re.split(r"[-.]", name)[0]), name))
    return tuple(RunLink(title=_title(name), url=_url(folder, name)) for name in names)


def _files(folder: Path) -> tuple[RunLink, ...]:
    names = sorted(_names(folder, _FILE))
    return tuple(RunLink(title=name, url=_url(folder, name)) for name in names)


def _names(folder: Path, names: re.Pattern[str]) -> list[str]:
    try:
        files = list(folder.iterdir())
    except OSError:  # it is gone, or not ours to read
        return []
    return [one.name for one in files if names.fullmatch(one.name) and _is_plain(one)]


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _title(name: str) -> str:
    if name in _TITLES:
        return _TITLES[name]
    kind, _dash, approach = name.removesuffix(".html").partition("-")
    return f"Compared: {approach}" if kind == "compare" else f"Server: {approach}"


def _url(folder: Path, name: str) -> str:
    return f"/lab/runs/{quote(folder.name, safe='')}/{name}"
