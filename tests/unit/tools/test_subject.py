# SPDX-License-Identifier: PostgreSQL
"""The hook that checks a commit's subject, and make hooks, which sets it up."""

import subprocess
from pathlib import Path

import pytest

from support.cluster import REPOSITORY

SCRIPT = REPOSITORY / "tools" / "subject.sh"


@pytest.mark.parametrize(
    ("message", "passes"),
    [
        ("x" * 72, True),
        ("x" * 73, False),
        ("ü" * 72, True),
        ("# a comment\n\n" + "x" * 73, False),
        ("Short\n\n" + "a body's line may be as long as it likes " * 3, True),
        ('Revert "' + "x" * 73 + '"', True),
        ("fixup! " + "x" * 73, True),
        ("", True),  # git itself refuses it
    ],
)
def test_a_subject_has_72_characters_at_most(message: str, passes: bool, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_text(f"{message}\n")
    done = subprocess.run([SCRIPT, file], capture_output=True, text=True)
    assert (done.returncode == 0) == passes, done.stderr
    assert passes or "72 at most" in done.stderr


def test_make_hooks_sets_it_up(tmp_path: Path) -> None:
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=.git/hooks")
        return subprocess.run(["git", *own, *words], cwd=tmp_path, capture_output=True, text=True)

    git("init", "--quiet", ".")
    (tmp_path / "tools").symlink_to(REPOSITORY / "tools")
    done = subprocess.run(
        ["make", "--no-print-directory", "-f", REPOSITORY / "Makefile", "hooks"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / ".git/hooks/pre-commit").unlink()  # make check is tried elsewhere
    refused = git("commit", "--allow-empty", "-m", "x" * 73)
    assert refused.returncode != 0
    assert "72 at most" in refused.stderr
    assert git("commit", "--allow-empty", "-m", "x" * 72).returncode == 0
