# SPDX-License-Identifier: PostgreSQL
"""The C rooms are built with the user's compiler and flags, and our flags come last."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.cluster import REPOSITORY

ROOMS = ("core", "emulator", "extension")
FLAGS = {
    "CC": "some-cc -fancy",
    "CFLAGS": "-O3 -Wp,-D_FORTIFY_SOURCE=3",
    "CPPFLAGS": "-D_FORTIFY_SOURCE=3",
    "LDFLAGS": "-Wl,--build-id=0x1",
}


@pytest.fixture
def built_by_clang(pg_install: PgInstall, tmp_path: Path) -> Path:
    """Return the pg_config of a server built by another compiler, with flags that ours lacks."""
    asked = subprocess.run(
        [pg_install.pg_config, "--pgxs"], capture_output=True, text=True, check=True
    )
    pgxs = Path(asked.stdout.strip())
    shutil.copytree(pgxs.parents[2], tmp_path / "pgxs")
    mentioned = tmp_path / "pgxs" / "src" / "Makefile.global"
    text, count = re.subn(
        r"(?m)^(CC|CFLAGS|CPPFLAGS|LDFLAGS|LDFLAGS_SL) = .*", r"\1 = -theirs", mentioned.read_text()
    )
    assert count >= 4
    mentioned.write_text(text)
    program = tmp_path / "pg_config"
    copied = tmp_path / "pgxs" / pgxs.relative_to(pgxs.parents[2])
    program.write_text(
        f"#!/bin/sh\ncase $1 in --pgxs) echo {copied} ;; "
        f'*) exec {pg_install.pg_config} "$@" ;; esac\n'
    )
    program.chmod(0o755)
    return program


def compilations(room: str, pg_config: Path, folder: Path, *, as_words: bool) -> list[str]:
    """Return the compilers' command lines that make would run."""
    words = [f"{name}={value}" for name, value in FLAGS.items()] if as_words else []
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    # Nothing has been built yet in BUILD; core's own folder is made again by --always-make.
    done = subprocess.run(
        [
            *("make", "--dry-run", "--always-make", "--no-print-directory"),
            *("-C", REPOSITORY / room, "all", f"PG_CONFIG={pg_config}"),
            *([f"BUILD={folder}"] if room == "extension" else []),
            *words,
        ],
        capture_output=True,
        text=True,
        check=True,
        env=env if as_words else env | FLAGS,
    )
    lines = done.stdout.replace("\\\n", " ").splitlines()
    return [line for line in lines if re.search(r" -o \S+", line)]


@pytest.mark.parametrize("as_words", [True, False], ids=["command line", "environment"])
@pytest.mark.parametrize("room", ROOMS)
def test_the_builders_compiler_and_flags_are_used_and_the_servers_are_not(
    room: str, as_words: bool, built_by_clang: Path, tmp_path: Path
) -> None:
    found = compilations(room, built_by_clang, tmp_path / "build", as_words=as_words)
    assert len(found) > 1
    for line in found:
        assert line.startswith("some-cc -fancy "), line
        assert "-theirs" not in line
        assert "-O3" in line
    assert any("-Wl,--build-id=0x1" in line for line in found)


@pytest.mark.parametrize("room", ROOMS)
def test_checked_calls_of_libc_are_left_out_whatever_the_builder_says(
    room: str, pg_install: PgInstall, tmp_path: Path
) -> None:
    for line in compilations(room, pg_install.pg_config, tmp_path / "build", as_words=True):
        # A flag of -Wp is applied after all others, and the last one counts.
        before, _found, after = line.rpartition("-Wp,-U_FORTIFY_SOURCE")
        if " -c " in line or ".c " in line:
            assert before
            assert "FORTIFY" not in after
