# SPDX-License-Identifier: PostgreSQL
"""A run as one file, and that nothing in the folder of a run leads a writer elsewhere."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pgflash_lab import api
from pgflash_lab.cli.lab import lab
from pgflash_lab.store import StoreError, make_folder, write_file

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


def test_the_file_names_no_path(stored: Path, tmp_path: Path) -> None:
    secret = "/people/alice/array/server/data"
    for name in ("awr-01-baseline.json", "report.html"):
        (stored / "runs" / "stored-run" / name).write_text(
            f'["data_directory", "{secret}", "log={secret}/x.log", "1/2/3", "a/b", "+/ab/cd="] '
            f"<td>{secret}</td></tr> https://example.org/a/b"
        )
    file = tmp_path / "results.tar.gz"
    assert export(stored, "latest", "-o", str(file)).exit_code == 0
    with tarfile.open(file) as archive:
        for name in ("awr-01-baseline.json", "report.html"):
            content = archive.extractfile(f"stored-run/{name}")
            assert content is not None
            assert content.read().decode() == (
                '["data_directory", "(a path)", "log=(a path)", "1/2/3", "a/b", "+/ab/cd="] '
                "<td>(a path)</td></tr> https://example.org/a/b"
            )


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


def test_the_file_has_no_links_and_goes_where_a_link_of_the_user_leads(
    stored: Path, tmp_path: Path
) -> None:
    (stored / "runs" / "stored-run" / "awr-link.html").symlink_to(RUN / "run.json")
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    assert export(stored, "latest", "-o", str(tmp_path / "link" / "a.tar.gz")).exit_code == 0
    with tarfile.open(tmp_path / "disk" / "a.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "link" in name]


# ---- folders that somebody else may have filled


def test_a_link_in_the_folder_of_a_run_is_never_written_through(tmp_path: Path) -> None:
    aim, folder = tmp_path / "aim", tmp_path / "run"
    aim.write_text("mine")
    folder.mkdir()
    for name in ("result.json", f".result.json.{os.getpid()}", f".probe.{os.getpid()}"):
        (folder / name).symlink_to(aim)
    make_folder(folder)
    write_file(folder / "result.json", b"new")
    assert aim.read_text() == "mine"
    assert (folder / "result.json").read_text() == "new"
    assert not (folder / "result.json").is_symlink()


def test_no_file_is_written_where_the_folder_of_a_run_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "aim").mkdir()
    (tmp_path / "run").symlink_to("aim")
    with pytest.raises(StoreError, match="it is a link"):
        make_folder(tmp_path / "run")
    with pytest.raises(StoreError, match="it is a link"):
        write_file(tmp_path / "run" / "index.html", b"new")
    assert not list((tmp_path / "aim").iterdir())


def test_a_new_file_is_for_those_whom_the_umask_lets_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "result.json", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "result.json").stat().st_mode & 0o777 == 0o640
