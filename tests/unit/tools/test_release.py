# SPDX-License-Identifier: PostgreSQL
"""make release: the same commit gives the same files, and they are complete."""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import pgflash
from support.cluster import REPOSITORY

NAME = f"pgflash-{pgflash.__version__}"

pytestmark = pytest.mark.skipif(
    not (REPOSITORY / ".git").exists(), reason="a release is made of a commit"
)


def git(folder: Path, *words: str) -> str:
    """Run git in a clone, as somebody with a name."""
    who = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    done = subprocess.run(
        ("git", "-c", "safe.directory=*", *who, *words),
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose last commit has the files as they are here."""
    folder = tmp_path / "clone"
    git(tmp_path, "init", "--quiet", str(folder))
    every = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in git(REPOSITORY, *every).split("\0"):
        if name and (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A release")
    return folder


def release(clone: Path, out: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Make a release."""
    return subprocess.run(
        (clone / "tools" / "release.sh", out),
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_release_has_the_same_bytes_anywhere_and_its_sums_are_right(
    clone: Path, tmp_path: Path
) -> None:
    done = release(clone, tmp_path / "one", TZ="UTC")
    assert done.returncode == 0, done.stderr
    elsewhere = tmp_path / "other-name"
    git(tmp_path, "clone", "--quiet", str(clone), str(elsewhere))
    umask = os.umask(0o077)
    try:
        assert release(elsewhere, tmp_path / "two", TZ="Asia/Tokyo").returncode == 0
    finally:
        os.umask(umask)
    made = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert set(made) == {f"{NAME}.tar.gz", f"{NAME}.cdx.json", f"{NAME}.md", "SHA256SUMS"}
    subprocess.run(
        ("sha256sum", "--check", "--quiet", "SHA256SUMS"), cwd=tmp_path / "one", check=True
    )
    assert len(made["SHA256SUMS"].splitlines()) == len(made) - 1


def test_the_tarball_has_every_tracked_file_and_the_notes_this_version_only(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "not-committed").write_text("a secret")
    done = release(clone, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "changes that are not committed" in done.stderr
    with tarfile.open(tmp_path / "out" / f"{NAME}.tar.gz") as archive:
        names = {one.name for one in archive if not one.isdir()}
    assert names == {f"{NAME}/{one}" for one in git(clone, "ls-files").splitlines()}

    changelog = (clone / "CHANGELOG.md").read_text()
    notes = (tmp_path / "out" / f"{NAME}.md").read_text()
    assert notes in changelog
    assert [line for line in notes.splitlines() if line.startswith("## ")] == [
        notes.splitlines()[0]
    ]
    assert notes.splitlines()[0].split()[1].rstrip(",") == pgflash.__version__
    bill = json.loads((tmp_path / "out" / f"{NAME}.cdx.json").read_text())
    assert bill["metadata"]["component"]["version"] == pgflash.__version__


def test_a_version_that_the_changelog_does_not_know_is_refused(clone: Path, tmp_path: Path) -> None:
    version = clone / "python/pgflash/__init__.py"
    version.write_text(version.read_text().replace(pgflash.__version__, "7.0.0"))
    git(clone, "commit", "--quiet", "--all", "--message", "Seven")
    done = release(clone, tmp_path / "out")
    assert done.returncode != 0
    assert "CHANGELOG.md says nothing of version 7.0.0" in done.stderr


def test_a_release_replaces_an_earlier_one_and_nothing_else(clone: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert release(clone, out).returncode == 0
    (out / "SHA256SUMS").write_text("of an earlier one")
    assert release(clone, out).returncode == 0
    assert (out / "SHA256SUMS").read_text() != "of an earlier one"
    (out / "taxes.txt").write_text("the only copy")
    done = release(clone, out)
    assert done.returncode == 1
    assert f"{out} would be emptied" in done.stderr
    assert (out / "taxes.txt").read_text() == "the only copy"
