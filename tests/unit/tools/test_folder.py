# SPDX-License-Identifier: PostgreSQL
"""A script that empties the folder for its results removes nothing but earlier results."""

import os
import subprocess
from pathlib import Path

import pytest

from support.cluster import REPOSITORY

#: What a script that sources the file has of its own.
FAIL = 'set -eu; fail() { printf "%s\\n" "$@" >&2; exit 3; }; . tools/folder.sh; empty "$@"'
WHEELS = ("-type", "f", "-name", "*.whl")


def empty(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Empty a folder of what the tests of find say."""
    return subprocess.run(
        ("bash", "-c", FAIL, "bash", folder, *tests),
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_folder_of_earlier_results_is_emptied_and_a_missing_one_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "wheels"
    assert empty(folder, *WHEELS).returncode == 0
    assert list(folder.iterdir()) == []
    (folder / "a.whl").touch()
    assert empty(folder, *WHEELS).returncode == 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["taxes.txt", ".hidden", "folder.whl/thesis.txt"])
def test_a_folder_with_anything_else_is_refused_by_name_and_kept(tmp_path: Path, name: str) -> None:
    for path in (tmp_path / "a.whl", tmp_path / name):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    done = empty(tmp_path, *WHEELS)
    assert done.returncode == 3
    assert str(tmp_path) in done.stderr
    assert name.split("/")[0] in done.stderr
    assert (tmp_path / "a.whl").exists()
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("script", ["deb.sh", "wheels.sh"])
def test_packages_and_wheels_are_not_written_to_a_folder_in_use(
    script: str, tmp_path: Path
) -> None:
    out, programs = tmp_path / "out", tmp_path / "bin"
    # Debian's tools need not be installed: nothing is built.
    programs.mkdir()
    for name in ("dpkg-buildpackage", "dpkg-parsechangelog", "pg_buildext", "dh", "xz"):
        (programs / name).write_text("#!/bin/sh\necho 0.2.0-1\n")
        (programs / name).chmod(0o755)
    out.mkdir()
    (out / "taxes.txt").write_text("the only copy")
    done = subprocess.run(
        (REPOSITORY / "tools" / script, out),
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"{script.removesuffix('.sh')}: {out} would be emptied")
    assert (out / "taxes.txt").read_text() == "the only copy"
