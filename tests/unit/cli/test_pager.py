# SPDX-License-Identifier: PostgreSQL
"""Long output on a terminal: in a pager, as psql does it, and nowhere else."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.terminal import PGFLASH, terminal

#: Its output has some twenty lines.
LONG = (*PGFLASH, "lab", "list", "--format", "json")
#: Marks what goes through it.
MARK = "sed 's/^/| /'"


def seen(*words: str, lines: int = 10, **environment: str) -> str:
    """Return what a person sees."""
    variables = {"PSQL_PAGER": None, "PAGER": None, "PGFLASH_CONFIG": "", **environment}
    with terminal((*LONG, *words), lines=lines, environment=variables) as shown:
        return shown.rest()


def test_what_is_longer_than_the_window_goes_through_the_pager() -> None:
    text = seen(PSQL_PAGER=MARK)
    assert len(text.splitlines()) > 10
    assert all(line.startswith("| ") for line in text.splitlines())


def test_what_fits_the_window_is_printed() -> None:
    assert "| " not in seen(PSQL_PAGER=MARK, lines=5000)


def test_psqls_pager_counts_more_than_that_of_others_and_an_empty_one_is_none() -> None:
    assert seen(PSQL_PAGER=MARK, PAGER="sed 's/^/> /'").startswith("| ")
    assert seen(PSQL_PAGER=" ", PAGER=MARK).startswith("[")


def test_an_option_and_the_users_file_do_without(tmp_path: Path) -> None:
    assert seen("--no-pager", PSQL_PAGER=MARK).startswith("[")
    file = tmp_path / "pgflash.toml"
    file.write_text("[output]\npager = false\n")
    file.chmod(0o600)
    assert seen(PSQL_PAGER=MARK, PGFLASH_CONFIG=str(file)).startswith("[")


def test_a_pager_that_is_not_there_loses_nothing() -> None:
    whole = seen("--no-pager")
    assert seen(PAGER="pgflash-no-such-pager 2>/dev/null") == whole


def test_a_pager_that_reads_no_further_is_no_error() -> None:
    assert len(seen(PAGER="head -n 3").splitlines()) == 3


def test_nothing_that_is_piped_is_paged() -> None:
    environment = {**os.environ, "PSQL_PAGER": MARK}
    done = subprocess.run(LONG, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("[")


@pytest.mark.skipif(shutil.which("less") is None, reason="there is no less: apt-get install less")
def test_less_is_the_pager_of_those_who_have_none_and_ends_with_q() -> None:
    without = {"PSQL_PAGER": None, "PAGER": None, "LESS": None}
    with terminal(LONG, lines=10, environment=without) as shown:
        shown.until("\n:")
        shown.type("q")
        shown.rest()
        assert shown.child.returncode == 0
