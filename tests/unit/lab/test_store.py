# SPDX-License-Identifier: PostgreSQL
"""A run as one file: what is in it, what is not, and that a run comes back from it."""

import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pgflash_lab import api
from pgflash_lab.cli.lab import lab

RUN = Path(__file__).parents[2] / "golden" / "data" / "predictions" / "flash-cache"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return the folder of a store with one run, which has wait samples, too."""
    folder = tmp_path / "store" / "runs" / "stored-run"
    shutil.copytree(RUN, folder)
    (folder / "waits-01-baseline.jsonl.gz").write_bytes(b"many")
    (folder / ".report.html.4711").write_text("half")
    return tmp_path / "store"


def export(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(lab, ["export", *arguments, "--store", str(store)])


def test_a_run_comes_back_from_its_file(stored: Path, tmp_path: Path) -> None:
    file = tmp_path / "results.tar.gz"
    done = export(stored, "latest", "-o", str(file))
    assert (done.exit_code, done.output) == (0, f"Run: {file}\n")
    with tarfile.open(file) as archive:
        members = archive.getmembers()
        archive.extractall(tmp_path / "there")  # our own file
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, "", "")}
    names = {path.name for path in RUN.iterdir() if path.is_file()}
    assert {m.name for m in members} == {f"stored-run/{name}" for name in names}
    there = tmp_path / "there" / "stored-run"
    assert api.lab_show(str(there)) == api.lab_show("latest", store=stored)


def test_the_file_has_the_run_s_name_unless_told_otherwise(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert export(stored, "latest").exit_code == 0
    name = api.lab_show("latest", store=stored).id
    assert [path.name for path in tmp_path.glob("*.tar.gz")] == [f"{name}.tar.gz"]


def test_a_folder_that_is_not_there_is_named(stored: Path, tmp_path: Path) -> None:
    refused = export(stored, "latest", "-o", "/proc/results.tar.gz")
    assert refused.exit_code != 0
    assert "/proc/results.tar.gz" in str(refused.exception)
    assert "there is no run" in str(export(stored, "nowhere").exception)
