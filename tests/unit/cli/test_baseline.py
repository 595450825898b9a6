# SPDX-License-Identifier: PostgreSQL
"""pgflash baseline: periods are kept under a name, listed, compared and dropped."""

import csv
import io
import json
from pathlib import Path

import pytest

from pgflash.model.collected import NewSnapshot
from pgflash.model.snapshot import Section
from pgflash.store import FileStore
from support.busy import busy_store
from support.commands import failure, output

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return a file with six snapshots of a busy server."""
    path = tmp_path / "app.snapshots"
    shelf = busy_store(intervals=5)
    with FileStore.create(path) as file:
        for head in shelf.list():
            with file.adding("7"):
                sections: tuple[Section, ...] = tuple(shelf.sections(head.id).values())
                file.add(
                    NewSnapshot(
                        taken_at=head.taken_at,
                        started_at=head.started_at,
                        previous_id=head.previous_id,
                        took_ms=head.took_ms,
                        origin=head.origin,
                        server_version_num=head.server_version_num,
                        system_identifier="7",
                        sections=sections,
                        remembered={},
                        queries=shelf.queries([77, 78]),
                    )
                )
    return str(path)


def test_a_period_is_kept_listed_and_dropped(capsys: Capture, store: str) -> None:
    asked = ("baseline", "--store", store)
    assert "There are no baselines" in output(capsys, *asked)
    words = ("keep", "monday", "--store", store, "--from", "1", "--to", "3")
    kept = output(capsys, "baseline", *words)
    assert kept == "baseline monday: snapshots 1 to 3\n"
    output(capsys, *asked, "keep", "by time", "--from", "2026-03-01T12:30Z", "--to", "last")
    listed = output(capsys, *asked)
    assert "monday   1 to 3" in listed
    assert "by time  4 to 6" in listed
    found = json.loads(output(capsys, *asked, "--format", "json"))
    assert [(one["name"], one["begin_id"], one["end_id"]) for one in found] == [
        ("monday", 1, 3),
        ("by time", 4, 6),
    ]
    rows = list(csv.DictReader(io.StringIO(output(capsys, *asked, "--format", "csv"))))
    assert [row["name"] for row in rows] == ["monday", "by time"]
    assert output(capsys, *asked, "drop", "monday") == "baseline monday dropped\n"
    assert "monday" not in output(capsys, *asked)


def test_snapshots_say_what_they_are_kept_for(capsys: Capture, store: str) -> None:
    before = output(capsys, "snapshots", "--store", store)
    assert "kept as" not in before
    output(capsys, "baseline", "--store", store, "keep", "monday", "--from", "2", "--to", "4")
    lines = output(capsys, "snapshots", "--store", store).splitlines()
    assert [line.split()[0] for line in lines if line.endswith(" monday")] == ["2", "3", "4"]


def test_a_baseline_is_compared_and_reported_by_its_name(capsys: Capture, store: str) -> None:
    output(capsys, "baseline", "--store", store, "keep", "monday", "--from", "1", "--to", "3")
    report = output(capsys, "report", "--store", store, "--baseline", "monday")
    assert "snapshots 1 to 3" in report.splitlines()[0]
    compared = output(capsys, "compare", "--store", store, "monday", "4..6")
    assert "snapshots 1 to 3 and 4 to 6" in compared.splitlines()[0]


def test_a_baseline_outlives_what_drops_old_snapshots(capsys: Capture, store: str) -> None:
    output(capsys, "baseline", "--store", store, "keep", "monday", "--from", "1", "--to", "3")
    with FileStore.open(Path(store)) as file:
        assert file.drop(file.list()[-1].taken_at) == 2
    report = output(capsys, "report", "--store", store, "--baseline", "monday")
    assert "select s_quantity from stock where s_i_id = $1" in " ".join(report.split())


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (2, ("keep", "a..b"), '"a..b" cannot be the name of a baseline'),
        (2, ("keep", "kept.json"), '"kept.json" cannot be the name of a baseline'),
        (2, ("keep", " "), "cannot be the name of a baseline"),
        (2, ("keep", "monday"), 'there is a baseline "monday" already'),
        (2, ("keep", "x", "--from", "3", "--to", "1"), "after snapshot 1"),
        (1, ("drop", "tuesday"), 'there is no baseline "tuesday"'),
    ],
)
def test_what_cannot_be_kept_or_dropped_is_said(
    capsys: Capture, store: str, code: int, words: tuple[str, ...], message: str
) -> None:
    asked = ("baseline", "--store", store)
    output(capsys, *asked, "keep", "monday", "--from", "1", "--to", "3")
    assert message in failure(capsys, code, *asked, *words)


def test_a_baseline_that_is_not_there_names_those_that_are(capsys: Capture, store: str) -> None:
    output(capsys, "baseline", "--store", store, "keep", "monday", "--from", "1", "--to", "3")
    said = failure(capsys, 1, "report", "--store", store, "--baseline", "sunday")
    assert "HINT: There are: monday." in said
    both = failure(capsys, 2, "report", "--store", store, "--baseline", "monday", "--to", "3")
    assert "a baseline already has its period" in both
    assert '"sunday" is not a period' in failure(
        capsys, 2, "compare", "--store", store, "sunday", "1..2"
    )
