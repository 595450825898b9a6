# SPDX-License-Identifier: PostgreSQL
"""What a program or a library imports and defines, and what was judged of it (calls.toml)."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
HOOKS = REPOSITORY / "extension" / "src" / "hooks"
CALLS = REPOSITORY / "tests" / "unit" / "extension" / "hooks" / "calls.toml"

#: The versions of symbols that libc, libm and liburing define.
_OF_LIBC_AND_LIBURING = re.compile(r"GLIBC_\d|LIBURING_")


@cache
def calls() -> dict[str, Any]:
    """Return what was judged."""
    return tomllib.loads(CALLS.read_text())


def replaced(source: str) -> set[str]:
    """Return the functions that a file of hooks stands in for."""
    return {
        name + suffix
        for kind, name in re.findall(
            r'^\s*(?:URING_)?IMPORT(_64)?\("(\w+)"', (HOOKS / source).read_text(), re.M
        )
        for suffix in (("", "64") if kind else ("",))
    }


def defined(library: Path) -> set[str]:
    """Return the functions that a library defines for others."""
    listed = _said("nm", "-D", "--defined-only", library)
    return {
        line.split()[-1].split("@")[0]
        for line in listed.splitlines()
        if line.split()[1] in "TWi" and "GLIBC_PRIVATE" not in line
    }


def imported(program: Path) -> set[str]:
    """Return what a program imports from libc and liburing, functions and a few variables."""
    listed = _said("nm", "-D", "--undefined-only", program)
    symbols = [line.split()[-1].partition("@") for line in listed.splitlines()]
    return {name for name, _at, version in symbols if _OF_LIBC_AND_LIBURING.match(version)}


def needed(program: Path) -> set[str]:
    """Return the libraries that a program is linked to, without their versions."""
    return {
        re.split(r"[-.]\d|\.so", name)[0]
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", _said("readelf", "-d", program))
        if not name.startswith("ld-")
    }


def unjudged(program: Path, major: int) -> set[str]:
    """Return the functions and libraries that a server of a major uses and nobody has judged."""
    known = {
        name for one in calls()["file_calls"] if major in one["majors"] for name in one["names"]
    }
    known |= set().union(*calls()["other"].values())
    libraries = set().union(*calls()["libraries"].values())
    return (imported(program) - known) | (needed(program) - libraries)


def _said(*argv: str | Path) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
