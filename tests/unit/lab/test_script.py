# SPDX-License-Identifier: PostgreSQL
"""A user's own pgbench scripts: how they are named, and what is refused before anything loads."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.errors import PgflashError
from pgflash_lab.parameters import ScenarioError
from pgflash_lab.postgres import PgInstall
from pgflash_lab.script.driver import pgbench_command, require_scripts
from pgflash_lab.script.model import PgbenchParameters, Script
from pgflash_lab.script.workload import PgbenchWorkload
from support.workloads import parameters_of


def named(script: str, **own: object) -> PgbenchParameters:
    return parameters_of(PgbenchParameters, **{"scale": 1, "script": script, **own})


@pytest.fixture(scope="module")
def install() -> PgInstall:
    return PgInstall.embedded()


def file_of(folder: Path, text: str) -> str:
    file = folder / "own.sql"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("select-only", [("select-only", 1)]),
        ("a.sql@3, b@c.sql@1", [("a.sql", 3), ("b@c.sql", 1)]),
        ("/tmp/x.sql,tpcb-like@2", [("/tmp/x.sql", 1), ("tpcb-like", 2)]),
    ],
)
def test_scripts_are_named_with_their_weights(text: str, scripts: list[tuple[str, int]]) -> None:
    assert named(text).scripts == tuple(Script(name=n, weight=w) for n, w in scripts)


@pytest.mark.parametrize("text", ["", "a.sql@", "@3", "a.sql,,b.sql", "a.sql@x"])
def test_what_names_no_script_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="is none"):
        named(text)


def test_pgbenchs_own_scripts_need_its_tables() -> None:
    assert named("own.sql", scale=0).scale == 0
    with pytest.raises(ScenarioError, match="scale must be at least 1"):
        named("own.sql,select-only", scale=0)


def test_pgbench_gets_scripts_scale_and_rate(tmp_path: Path) -> None:
    def command(parameters: PgbenchParameters) -> list[str]:
        return pgbench_command(Path("pgbench"), "dbname=x", parameters, log_prefix=tmp_path / "log")

    own = command(named("/a.sql@2", scale=7, rate_tps=5.0))
    assert {"--file=/a.sql@2", "--scale=7", "--rate=5.0", "--protocol=prepared"} <= set(own)
    builtin = command(named("tpcb-like"))
    assert "--builtin=tpcb-like@1" in builtin
    # pgbench itself reads the scale from the tables, and complains if it is given one.
    assert not any(word.startswith(("--scale", "--rate")) for word in builtin)


def test_good_scripts_are_accepted_without_a_server(
    install: PgInstall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It must not find a server through the user's own settings, either.
    monkeypatch.setenv("PGHOSTADDR", "not an address")
    file = file_of(tmp_path, "\\set n random(1, 5)\nSELECT :n;\n")
    require_scripts(install, named(f"{file}@2,select-only"))
    assert list(named(file).files()) == [file]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\\set n randem(1, 5)\nSELECT :n;\n", r"own.sql:1: unexpected function name"),
        ("\\jump\n", "invalid command"),
        ("", "own.sql.*empty|empty.*own.sql"),
    ],
)
def test_a_script_that_pgbench_does_not_understand_is_refused_with_its_place(
    install: PgInstall, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        require_scripts(install, named(file_of(tmp_path, text)))


def test_a_file_that_is_missing_is_named(install: PgInstall) -> None:
    for one in (named("/none.sql"), named("select-only", setup="/none.sql")):
        with pytest.raises(ScenarioError, match=r'could not read "/none\.sql": No such file'):
            PgbenchWorkload().require(install, one)


def test_conditions_that_are_none_are_refused(install: PgInstall, tmp_path: Path) -> None:
    one = named("select-only", conditions=file_of(tmp_path, "SELECT 0;\n"))
    with pytest.raises(PgflashError, match="has no condition"):
        PgbenchWorkload().require(install, one)


def test_another_setup_is_another_database(tmp_path: Path) -> None:
    workload, plain = PgbenchWorkload(), named("select-only")
    keys = {workload.key(plain), workload.key(replace(plain, scale=2))}
    for text in ("CREATE TABLE a ();\n", "CREATE TABLE b ();\n"):
        keys.add(workload.key(replace(plain, setup=file_of(tmp_path, text))))
    assert len(keys) == 4
