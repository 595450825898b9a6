# SPDX-License-Identifier: PostgreSQL
"""Where runs and snapshots are kept.

    out/runs/<id>/run.json       the run, rewritten after every attempt
    out/runs/<id>/result.json    its results, for programs
    out/runs/<id>/report.html    the same for people
    out/runs/<id>/paper.html     the tables and figures of the paper that it follows, with ours
    out/runs/<id>/paper.json     the same for programs
    out/runs/<id>/waits-*.jsonl.gz   every look of the wait sampler
    out/runs/<id>/awr-*.json     what the server itself counted in each attempt
    out/runs/<id>/awr-<approach>.html, compare-<approach>.html   the same for people
    out/runs/<id>/progress.json  what a run is doing, while it is made (journal.py)
    out/series/<id>.json         the orders of a run of all scenarios
    out/cache/<key>/             a loaded database, for the next run

Every file is complete or absent: it is written under another name and renamed.  A run may be
somebody else's, unpacked from a file, so no link in its folder is followed.
"""

import contextlib
import errno
import gzip
import io
import json
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import PgflashError
from pgflash.model.awr import AwrReport
from pgflash.report.awr.stored import read_period, report_to_json
from pgflash.trusted import replace_file
from pgflash_lab.model.run import Run
from pgflash_lab.model.stored import StoredRunError, run_from_json, run_to_json
from pgflash_lab.model.summary import summarize
from pgflash_lab.sampler import WaitSample

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
REPORT_FILE = "report.html"
PAPER_FILE = "paper.html"
PAPER_RESULT_FILE = "paper.json"


#: A run of an hour for each of six approaches has about a tenth of this.
RUN_MAX_BYTES = 256 * 2**20
#: A path of two names or more, but no tag of HTML and no part of an address, a word or base64.
_PATH = re.compile(r"(?<![\w.:/<+~-])(?:/[\w.@+~%-]+){2,}/?")
_A_PATH = "(a path)"
#: Of files that we write; the umask takes from it.
_MODE = 0o666


class StoreError(PgflashError):
    """The store cannot be read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A folder of runs."""

    root: Path

    @property
    def runs(self) -> Path:
        """The folder that holds a folder for each run."""
        return self.root / "runs"

    @property
    def cache(self) -> Path:
        """The folder of loaded databases."""
        return self.root / "cache"

    def folder(self, run_id: str) -> Path:
        """Return the folder of a new run."""
        return self.runs / run_id

    def ids(self) -> list[str]:
        """Return the ids of the stored runs, the oldest first."""
        if not self.runs.is_dir():
            return []
        return sorted(path.parent.name for path in self.runs.glob(f"*/{RUN_FILE}"))

    def find(self, name: str) -> Path:
        """Return a run's folder by its id, by "latest", or by a path."""
        if name == "latest":
            ids = self.ids()
            if not ids:
                raise StoredRunError(
                    f'there is no run in "{self.runs}"',
                    hint="Make one: pgflash lab run oltp-approaches.",
                )
            return self.runs / ids[-1]
        for candidate in (self.runs / name, Path(name)):
            if (candidate / RUN_FILE).is_file():
                return candidate
        if Path(name).is_file():
            return Path(name).parent
        raise StoredRunError(
            f'there is no run "{name}"', hint="'pgflash lab show' lists the runs there are."
        )

    def read(self, name: str) -> Run:
        """Return a stored run."""
        path = Path(name)
        if path.is_file():
            return read_run(path.resolve())
        return read_run(self.find(name) / RUN_FILE)


def read_run(path: Path) -> Run:
    """Return the run that a file holds."""
    try:
        text = read_plain(path, RUN_MAX_BYTES)
    except OSError as error:
        raise StoredRunError(
            f'could not read "{path}": {error.strerror}',
            hint="Name a run of 'pgflash lab show', its directory, or its run.json.",
        ) from error
    return run_from_json(text, name=str(path))


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file, made if need be; OSError at once if it is a link, a pipe, or anything else."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, _MODE)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return number


def read_plain(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file, which must be no link and no larger than that."""
    with os.fdopen(open_plain(path), "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, "it is too large", str(path))
    return content


def state_of(run: Run) -> str:
    """Say whether a run has ended; a killed run has not."""
    if run.stopped:
        return f"stopped: {run.stopped}"
    return "finished" if run.ended_at else "not finished"


def make_folder(folder: Path) -> None:
    """Make a run's folder early, so that a failure to do so is known before the run."""
    try:
        with _opened(folder) as number:
            probe = f".probe.{os.getpid()}"
            replace_file(number, probe, b"", mode=_MODE, sync=False)
            os.unlink(probe, dir_fd=number)
    except OSError as error:
        raise StoreError(
            f'could not write to "{folder}": {error.strerror}', hint="Name another with --out."
        ) from error


def write_run(folder: Path, run: Run) -> None:
    """Write the run as far as it has come."""
    write_file(folder / RUN_FILE, run_to_json(run))


def attempt_name(place: int, approach: str) -> str:
    """Return the name of the files of a run's attempt, from its position among all (from 0)."""
    return f"{place + 1:02}-{approach}"


def write_period(folder: Path, name: str, report: AwrReport) -> None:
    """Write the server's own report on one attempt."""
    write_file(period_file(folder, name), report_to_json(report).encode())


def period_file(folder: Path, name: str) -> Path:
    """Return the file of the server's own report on one attempt."""
    return folder / f"awr-{name}.json"


def periods_of(folder: Path, run: Run) -> dict[str, AwrReport]:
    """Return the report on each approach's middle attempt, if there is one."""
    found = {}
    for summary in summarize(run):
        place = next(i for i, one in enumerate(run.attempts) if one is summary.middle)
        path = period_file(folder, attempt_name(place, summary.approach.name))
        if path.is_file():
            found[summary.approach.name] = read_period(path)
    return found


def write_waits(folder: Path, name: str, samples: Sequence[WaitSample]) -> None:
    """Write one attempt's wait samples, one JSON array a line."""
    lines = (
        json.dumps([round(s.at_s, 3), s.backend_type, s.wait_type, s.event, s.count])
        for s in samples
    )
    text = "\n".join(lines) + "\n"
    write_file(folder / f"waits-{name}.jsonl.gz", gzip.compress(text.encode(), mtime=0))


def export_run(folder: Path, path: Path) -> None:
    """Write a run as one file: a gzipped tar archive with a folder of the run's name.

    Its wait samples are left out: they are most of a run, and its report has what they say.  So are
    the paths in its texts, which may name people and machines.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(folder.iterdir()):
            hidden = file.name.startswith((".", "waits-"))
            if file.is_file() and not file.is_symlink() and not hidden:
                text = read_plain(file, RUN_MAX_BYTES).decode(errors="surrogateescape")
                cleared = _PATH.sub(_A_PATH, text).encode(errors="surrogateescape")
                member = archive.gettarinfo(file, arcname=f"{folder.name}/{file.name}")
                member.size = len(cleared)
                archive.addfile(_nobodys(member), io.BytesIO(cleared))
    # Where it goes is the user's own choice, links included.
    write_file(path.parent.resolve() / path.name, content.getvalue())


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who made it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or absent; a link of this name is replaced."""
    try:
        with _opened(path.parent) as folder:
            replace_file(folder, path.name, content, mode=_MODE, sync=False)
    except OSError as error:
        raise StoreError(f'could not write "{path}": {error.strerror}') from error


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Yield a folder of a run, made if need be, open; OSError if it is a link."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, name the folder that it leads to", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield number
    finally:
        os.close(number)
