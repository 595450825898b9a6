# SPDX-License-Identifier: PostgreSQL
"""The C rooms are C11 that clang, too, compiles without a warning."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.cluster import REPOSITORY


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
    for room in ("core", "emulator", "extension"):
        shutil.copytree(REPOSITORY / room, folder / room, ignore=shutil.ignore_patterns("build"))
    return folder


@pytest.mark.parametrize("room", ["core", "emulator", "extension"])
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
