# SPDX-License-Identifier: PostgreSQL
"""pgflash report and pgflash compare: forms, periods, files, and errors in one line."""

import json
from pathlib import Path
from typing import Self

import pytest

from pgflash import api
from pgflash.model.snapshot import SnapshotStore
from support.busy import busy_store
from support.commands import failure, output
from support.periods import Shelf


class Opened:
    """A store in memory that counts how often it was opened and closed."""

    def __init__(self, store: SnapshotStore) -> None:
        self.store = store
        self.asked: list[tuple[str | None, Path | None]] = []
        self.closed = 0

    def open(self, *, dsn: str | None = None, path: Path | None = None) -> Self:
        self.asked.append((dsn, path))
        return self

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.closed += 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Return three snapshots that every command finds, wherever it looks."""
    made = Opened(busy_store(intervals=2))
    monkeypatch.setattr(api, "open_store", made.open)
    return made


def test_without_a_period_it_is_the_last_two_snapshots(
    capsys: pytest.CaptureFixture[str], opened: Opened
) -> None:
    assert "snapshots 2 to 3" in output(capsys, "report").splitlines()[0]
    assert opened.asked == [(None, None)]
    assert opened.closed == 1


@pytest.mark.parametrize(
    ("words", "period"),
    [
        (("--from", "first"), "1 to 3"),
        (("--to", "2"), "1 to 2"),
        (("--from", "1", "--to", "2"), "1 to 2"),
        (("--from", "last-2", "--to", "last"), "1 to 3"),
        (("--from", "2026-03-01T12:10:30Z", "--to", "2026-03-01T13:00Z"), "2 to 3"),
    ],
)
def test_periods_are_named_by_number_place_or_time(
    capsys: pytest.CaptureFixture[str], opened: Opened, words: tuple[str, ...], period: str
) -> None:
    assert f"snapshots {period}" in output(capsys, "report", *words).splitlines()[0]


def test_every_form_can_be_had(capsys: pytest.CaptureFixture[str], opened: Opened) -> None:
    assert output(capsys, "report", "--format", "html").startswith("<!DOCTYPE html>")
    assert output(capsys, "report", "--format", "md").startswith("# PostgreSQL report")
    assert output(capsys, "report", "--format", "text").startswith("PostgreSQL report")
    assert json.loads(output(capsys, "report", "--format", "json"))["kind"] == "report"


@pytest.mark.parametrize(
    ("name", "begin"),
    [("r.html", "<!DOCTYPE html>"), ("r.MD", "# "), ("r.json", "{"), ("r.txt", "PostgreSQL"),
     ("r", "PostgreSQL")],
)  # fmt: skip
def test_a_file_s_name_says_its_form(
    capsys: pytest.CaptureFixture[str], opened: Opened, tmp_path: Path, name: str, begin: str
) -> None:
    said = output(capsys, "report", "-o", str(tmp_path / name))
    assert said == f"Report: {tmp_path / name}\n"
    assert (tmp_path / name).read_text().startswith(begin)


def test_where_the_snapshots_are_is_passed_on(
    capsys: pytest.CaptureFixture[str], opened: Opened
) -> None:
    output(capsys, "report", "--dsn", "dbname=app")
    output(capsys, "report", "--store", "app.snapshots")
    assert opened.asked == [("dbname=app", None), (None, Path("app.snapshots"))]


def test_two_periods_are_compared_in_one_session(
    capsys: pytest.CaptureFixture[str], opened: Opened
) -> None:
    text = output(capsys, "compare", "1..2", "2..3")
    assert "snapshots 1 to 2 and 2 to 3" in text.splitlines()[0]
    assert len(opened.asked) == opened.closed == 1
    content = json.loads(output(capsys, "compare", "1..2", "2..3", "--format", "json"))
    assert content["kind"] == "comparison"


def test_stored_reports_are_compared_without_a_server(
    capsys: pytest.CaptureFixture[str], opened: Opened, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    output(capsys, "report", "--to", "2", "-o", str(one))
    output(capsys, "report", "-o", str(two))
    opened.asked.clear()
    text = output(capsys, "compare", str(one), str(two))
    assert "snapshots 1 to 2 and 2 to 3" in text.splitlines()[0]
    assert opened.asked == []
    assert "snapshots 1 to 2 and 1 to 3" in output(capsys, "compare", str(one), "1..3")


def test_a_stored_report_is_printed_in_another_form_without_a_server(
    capsys: pytest.CaptureFixture[str], opened: Opened, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    direct = output(capsys, "report", "--format", "html")
    output(capsys, "report", "-o", str(kept))
    opened.asked.clear()
    assert output(capsys, "report", str(kept), "--format", "html") == direct
    assert opened.asked == []


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (
            2,
            ("report", "--from", "2", "--to", "1"),
            "snapshot 2 was taken at 2026-03-01 12:10:00 UTC, after",
        ),
        (2, ("report", "--from", "2", "--to", "2"), "both its ends are snapshot 2"),
        (1, ("report", "--from", "7"), "there is no snapshot 7 in the shelf: it holds 1 to 3"),
        (2, ("report", "--from", "someday"), '"someday" is not a snapshot'),
        (2, ("report", "--to", "1"), "there is no snapshot before 1 in the shelf"),
        (2, ("report", "--dsn", "x", "--store", "y"), "exclude each other"),
        (2, ("report", "--format", "pdf"), "'pdf' is not one of"),
        (2, ("report", "-o", "/nowhere/at/all/r.html"), 'could not write "/nowhere/at/all/r.html"'),
        (2, ("report", "kept.json", "--to", "2"), "already has its period"),
        (1, ("report", "nowhere.json"), 'could not read "nowhere.json"'),
        (2, ("compare", "1..2"), "Missing argument"),
        (2, ("compare", "1..2", "3"), '"3" is not a period'),
        (2, ("compare", "..2", "2..3"), '"..2" is not a period'),
        (1, ("compare", "nowhere.json", "2..3"), 'could not read "nowhere.json"'),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str],
    opened: Opened,
    code: int,
    words: tuple[str, ...],
    message: str,
) -> None:
    assert message in failure(capsys, code, *words)
    assert opened.closed == len(opened.asked)


def test_an_empty_store_says_how_to_fill_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "open_store", Opened(Shelf()).open)
    text = failure(capsys, 1, "report")
    assert "there are no snapshots in the shelf" in text
    assert "HINT: Take one: pgflash snapshot" in text


def test_a_restart_leaves_the_last_whole_period(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Shelf()
    store.put(0, {})
    store.put(10, {})
    store.put(20, {}, started_minute=15)
    monkeypatch.setattr(api, "open_store", Opened(store).open)
    text = output(capsys, "report")
    assert "snapshots 1 to 2" in text.splitlines()[0]
    assert "The server was restarted between the snapshots 2 " in text
    assert "restart" in failure(capsys, 2, "report", "--from", "2", "--to", "3")


def test_the_report_says_which_times_were_asked_for(
    capsys: pytest.CaptureFixture[str], opened: Opened
) -> None:
    words = ("--from", "2026-03-01 11:58", "--to", "2026-03-01T12:21Z")
    text = output(capsys, "report", *words)
    assert "snapshots 1 to 3" in text.splitlines()[0]
    asked = "from 2026-03-01 11:58:00 UTC to 2026-03-01 12:21:00 UTC"
    assert f"requested: {asked}" in " ".join(text.split())


@pytest.mark.parametrize("word", ["report", "compare"])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert "Examples:\n    pgflash" in output(capsys, word, "--help")
