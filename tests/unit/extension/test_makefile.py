# SPDX-License-Identifier: PostgreSQL
"""The C rooms are built with the user's compiler and flags, and for the server that is named.

clang gives no warning.
"""

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


def compiled(room: str, pg_config: Path, folder: Path) -> str:
    """Build a copy of the rooms by clang, quickly; return what it says, "" if nothing."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(
        [
            *("make", "--silent", "-C", folder / room, "all", f"PG_CONFIG={pg_config}"),
            *("CC=clang", "CFLAGS=-O0", "WERROR=-Werror"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    said = done.stdout + done.stderr
    return said or ("" if done.returncode == 0 else f"make: {done.returncode}")


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("clang") is None:
        pytest.skip("there is no clang: apt-get install clang")
    folder = tmp_path_factory.mktemp("rooms")
    for room in ROOMS:
        shutil.copytree(REPOSITORY / room, folder / room, ignore=shutil.ignore_patterns("build"))
    return folder


@pytest.mark.parametrize("room", ROOMS)
def test_clang_compiles_without_a_warning(room: str, rooms: Path, pg_install: PgInstall) -> None:
    assert compiled(room, pg_install.pg_config, rooms) == ""


def test_a_declaration_after_a_label_is_seen(rooms: Path, pg_install: PgInstall) -> None:
    file = rooms / "core" / "src" / "declared.c"
    file.write_text(
        "int fc_declared(int n);\n"
        "int fc_declared(int n)\n{\n\tswitch (n)\n\t{\n\t\tcase 1:\n"
        '\t\t\t_Static_assert(sizeof(n) == 4, "");\n\t\t\treturn n;\n\t}\n\treturn 0;\n}\n'
    )
    try:
        assert "declared.c:7" in compiled("core", pg_install.pg_config, rooms)
    finally:
        file.unlink()


#: It has the numbers that a server compares with its own when it loads a library.
MAGIC = "src/server/module.o"


@pytest.fixture
def built_otherwise(pg_install: PgInstall, tmp_path: Path) -> Path:
    """Return the pg_config of a server of the same version with one other number in a header."""
    asked = subprocess.run(
        [pg_install.pg_config, "--pkgincludedir"], capture_output=True, text=True, check=True
    )
    copied = shutil.copytree(asked.stdout.strip(), tmp_path / "include")
    (changed,) = copied.rglob("server/pg_config_manual.h")
    text, count = re.subn(r"(#define FUNC_MAX_ARGS\s+)100\b", r"\g<1>200", changed.read_text())
    assert count == 1
    changed.write_text(text)
    program = tmp_path / "pg_config"
    program.write_text(
        f"#!/bin/sh\ncase $1 in --pkgincludedir) echo {copied} ;; "
        f"--includedir-server) echo {changed.parent} ;; "
        f'*) exec {pg_install.pg_config} "$@" ;; esac\n'
    )
    program.chmod(0o755)
    return program


def object_for(pg_config: Path, build: Path, *words: str) -> tuple[bytes, int]:
    """Have one object of the extension made; return its content, and when it was written."""
    room = REPOSITORY / "extension"
    (build / MAGIC).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *("make", "--silent", "-C", build, "-f", room / "Makefile", "IN_BUILD=1"),
            *(f"VPATH={room}", "with_llvm=no", f"PG_CONFIG={pg_config}", "CFLAGS=-O0"),
            *(*words, MAGIC),
        ],
        check=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
    )
    return (build / MAGIC).read_bytes(), (build / MAGIC).stat().st_mtime_ns


@pytest.mark.parametrize("words", [(), ("FC_TEST=1",)], ids=["for users", "for tests"])
def test_an_object_is_made_again_for_another_server_of_the_same_version_and_for_no_other_reason(
    words: tuple[str, ...], pg_install: PgInstall, built_otherwise: Path, tmp_path: Path
) -> None:
    build = tmp_path / "build"
    made = object_for(pg_install.pg_config, build, *words)
    assert object_for(pg_install.pg_config, build, *words) == made
    other, _written = object_for(built_otherwise, build, *words)
    assert other == object_for(built_otherwise, tmp_path / "new", *words)[0]
    assert other != made[0]
    assert object_for(pg_install.pg_config, build, *words)[0] == made[0]
