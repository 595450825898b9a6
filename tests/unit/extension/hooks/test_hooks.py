# SPDX-License-Identifier: PostgreSQL
"""Each function that the server imports is replaced, or was judged to leave relations' files alone.

calls.toml lists the judgements, for each major version. If PostgreSQL begins to use another
function, this test fails and names it.
"""

import subprocess
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.imports import calls, imported, replaced, unjudged

#: Calls a function that only 15 has, and one that no server has.
SOURCE = """\
#define _GNU_SOURCE
#include <sys/uio.h>
#include <unistd.h>
int main(void)
{
	struct iovec none = { 0 };
	return link("a", "b") + (int) pwritev2(1, &none, 1, 0, 0);
}
"""


@pytest.mark.extension
def test_whatever_the_server_imports_was_judged(pg_install: PgInstall) -> None:
    server = pg_install.bindir / "postgres"
    assert {"pwrite", "ftruncate", "unlink", "memcpy"} <= imported(server)
    assert not unjudged(server, pg_install.major)


def test_a_call_that_nobody_judged_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    subprocess.run(["gcc", "-x", "c", "-o", program, "-"], input=SOURCE, text=True, check=True)
    assert unjudged(program, 15) == {"pwritev2"}
    assert unjudged(program, 19) == {"link", "pwritev2"}


def test_a_library_that_nobody_judged_is_named(tmp_path: Path) -> None:
    library = tmp_path / "libstrange.so"
    subprocess.run(
        ["gcc", "-shared", "-x", "c", "-o", library, "-"], input="", text=True, check=True
    )
    program = tmp_path / "program"
    flags = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lstrange"]
    text = "int main(void) { return 0; }"
    subprocess.run(
        ["gcc", "-x", "c", "-o", program, "-", *flags], input=text, text=True, check=True
    )
    assert unjudged(program, 19) == {"libstrange"}


def test_calls_that_are_said_to_be_replaced_are() -> None:
    said = {
        name
        for one in calls()["file_calls"]
        if one["judgement"] == "replaced"
        for name in one["names"]
    }
    judged = {name for one in calls()["file_calls"] for name in one["names"]}
    assert said == judged & replaced("imports.def")
