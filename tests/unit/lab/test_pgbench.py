# SPDX-License-Identifier: PostgreSQL
"""A command that is given a password shows it to nobody."""

from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from pgflash_lab.pgbench import run_pgbench, without_password
from support.installs import no_install

SHOW = '#!/bin/sh\nprintf \'%s\\n\' "$*" > arguments\nprintf %s "$PGPASSWORD" > environment\n'


def test_a_password_goes_from_the_connection_string_into_a_variable() -> None:
    shown, hidden = without_password("host=a,b password=s3cret dbname=x")
    assert conninfo_to_dict(shown) == {"host": "a,b", "dbname": "x"}
    assert hidden == {"PGPASSWORD": "s3cret"}
    assert without_password("dbname=x") == ("dbname=x", {})


def test_no_password_is_among_the_arguments_of_pgbench(tmp_path: Path) -> None:
    program = tmp_path / "pgbench"
    program.write_text(SHOW)
    program.chmod(0o755)
    command = [str(program), "--progress=1", "dbname=x password=s3cret"]
    run_pgbench(
        no_install(tmp_path),
        command,
        workdir=tmp_path,
        run_s=0,
        heard=lambda _at_s, _tps, _latency_ms: None,
    )
    assert (tmp_path / "arguments").read_text() == "--progress=1 dbname=x\n"
    assert (tmp_path / "environment").read_text() == "s3cret"
