# SPDX-License-Identifier: PostgreSQL
"""Any user can choose names: none of them reaches a terminal or a spreadsheet as a command.

Mallory names a table so that it retitles a terminal, clears it, writes a line as if it were
ours, or is a formula that a spreadsheet would run.  Or she sends files with such texts in
them: a plan, a report, a run of the lab, an AWR report, a probe, a list of prices.  A user who
lists them sees codes instead: pgflash prints nothing but text and ends of lines.
"""

import csv
import io
import json
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgflash.api import render_period
from pgflash.cli import main
from pgflash.cli.output import print_csv
from pgflash.model.awr import AwrReport
from pgflash.model.plan import Move, MoveKind, make_plan
from pgflash.place.journal import write_plan
from pgflash_lab.account import make_server_dir
from pgflash_lab.model.paper import read_paper
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.awr_form import html_report, text_report
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.few import few

#: A title, a colour, the 8-bit form of "clear the screen", a line of ours, text from right to left.
EVIL = "\x1b]0;owned\x07\x1b[31mr\x9b2J\x7f\r\nHINT: type\u202ethis"
FORMULA = "=cmd|' /C calc'!A0"
RUNS = Path(__file__).resolve().parents[1] / "golden" / "data" / "predictions"


def printed(capsys: pytest.CaptureFixture[str], *words: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run a command line, and return what it printed, on both streams, if it is harmless."""
    code = main(list(words))
    captured = capsys.readouterr()
    assert code in codes, captured.err
    for text in captured:
        bad = {one for one in text if one not in "\n\t" and unicodedata.category(one) == "Cc"}
        assert not bad, f"{words}: {bad} in {text!r}"
        if not text.lstrip().startswith("<"):  # a page for a browser has its own rules
            assert "\u202e" not in text
    assert "\nHINT: type" not in captured.err
    return captured.out + captured.err


# ---- from a server

_TABLE = "create table {} as select n, repeat('x', 900) from generate_series(1, 4000) n"


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """A server whose database, tables, role and tablespace have names that are commands."""
    factory = ClusterFactory(pgflash_install)
    cached = create_cached(factory, pgflash_install, settings={"pgflash.verify": "off"})
    server = cached.server
    space = make_server_dir(server.base / "evil")
    name = sql.Identifier(EVIL)
    with server.connect() as connection:
        connection.execute(sql.SQL("create database {}").format(name))
        connection.execute(sql.SQL("create role {} login in role pg_monitor").format(name))
        connection.execute(
            sql.SQL("create tablespace {} location {}").format(name, sql.Literal(str(space)))
        )
    with server.connect(EVIL) as connection:
        connection.execute("create extension pgflash")
        connection.execute(sql.SQL("create schema {}").format(name))
        for table in (name, sql.Identifier(EVIL, EVIL), sql.Identifier(FORMULA)):
            connection.execute(sql.SQL(_TABLE).format(table))
            connection.execute(sql.SQL("create index on {} (n)").format(table))
        connection.execute("checkpoint; select pgflash_snapshot()")
        for table in (name, sql.Identifier(EVIL, EVIL), sql.Identifier(FORMULA)):
            connection.execute(sql.SQL("select sum(n) from {}").format(table))
        connection.execute("select pg_stat_force_next_flush()")
        connection.execute("select pgflash_snapshot()")
    yield server
    factory.close()


@pytest.mark.parametrize(
    "line",
    [
        *(f"report --format {form}" for form in ("text", "md", "html", "json")),
        "compare first..last first..last",
        *(f"advise --flash-bytes 8GB --format {form}" for form in ("table", "md", "csv", "json")),
        *(f"{name} --format {form}" for name in ("devices", "doctor", "snapshots")
          for form in ("table", "csv", "json")),
        "doctor --all",
        *(f"top --seconds 1 --every 0.2 --format {form}" for form in ("table", "json")),
    ],
)  # fmt: skip
def test_names_in_a_server_are_printed_as_text(
    server: Server, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    printed(capsys, *line.split(), "--dsn", server.conninfo(EVIL))


def test_the_names_were_there_to_be_printed(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control: reports name the tables, and devices names the tablespace."""
    dsn = ("--dsn", server.conninfo(EVIL))
    for word in ("report", "devices"):
        assert "\\u001b]0;owned" in printed(capsys, word, *dsn)


def test_names_in_what_a_move_would_mean_and_in_errors_are_printed_as_text(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = ("--dsn", server.conninfo(EVIL))
    for name in (f"public.{EVIL}", f'"{EVIL}"."{EVIL}"'):
        words = ("place", "table", name, "--on", EVIL, "--dry-run", *dsn)
        assert "owned" in printed(capsys, *words)
    for asked in (
        ("place", "table", f"{EVIL}.none", "--on", EVIL, "--dry-run", *dsn),
        ("place", "table", "none", "--on", f"{EVIL}?", "--dry-run", *dsn),
        ("snapshots", "--dsn", make_conninfo(server.conninfo(), dbname=f"{EVIL}?")),
        ("report", "--dsn", make_conninfo(server.conninfo(), dbname="postgres", user=EVIL)),
    ):
        printed(capsys, *asked, codes=(1,))


# ---- from files


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_plan_of_anybodys_is_printed_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path = tmp_path / "plan.json"
    moves = [Move(kind=MoveKind.TABLE, to=EVIL, name=EVIL, database=EVIL, why=EVIL)]
    moves.append(Move(kind=MoveKind.TABLE, to="fast", name=FORMULA))
    plan = make_plan(moves, id=EVIL, system_identifier=EVIL, made_at=datetime.now(UTC))
    write_plan(path, plan.with_record(0, replace(plan.records[0], was=EVIL, message=EVIL)))
    text = printed(capsys, "plan", "show", str(path), "--format", form)
    if form == "csv":
        assert [row["name"] for row in csv.DictReader(io.StringIO(text))][1] == f"'{FORMULA}"


def hostile_report() -> AwrReport:
    segments = ((EVIL, "table", 12_000.0, 10.0), (FORMULA, "index", 8_000.0, 0.0))
    report = few(segments=segments)
    return replace(report, head=replace(report.head, server_version=EVIL))


@pytest.mark.parametrize("command", ["report", "advise"])
@pytest.mark.parametrize("form", ["table", "text", "md", "html", "json"])
def test_a_report_of_anybodys_is_printed_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, form: str
) -> None:
    path = tmp_path / "kept.json"
    path.write_text(render_period(hostile_report(), "json"))
    text = printed(capsys, command, str(path), "--format", form, codes=(0, 2))
    assert "owned" in text or "Invalid value" in text  # not each has all forms


@pytest.mark.parametrize("form", ["table", "md", "json"])
def test_an_awr_report_of_anybodys_is_printed_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    figure = read_paper("000").exhibit("fig-3")
    rows = tuple((f"{EVIL}{row[0]}", *row[1:]) for row in figure.rows)
    for make in (html_report, text_report):
        for rowset in (rows, (*figure.rows, *rows)):
            path = tmp_path / f"{EVIL[:9]}.awr"
            path.write_text(make(msgspec.structs.replace(figure, rows=rowset), head=EVIL))
            words = ("advise", "--awr", str(path), "--cores", "25", "--format", form)
            printed(capsys, *words, codes=(0, 2))


@pytest.mark.parametrize(
    "line",
    [
        *(f"lab show RUN --format {form}" for form in ("table", "csv", "json")),
        *(f"lab predict RUN --format {form}" for form in ("table", "csv", "json", "md")),
        *(f"lab paper RUN --format {form}" for form in ("text", "json", "html")),
        *(f"cost --run RUN --format {form}" for form in ("table", "csv", "json")),
        "lab report RUN -o -",
        "lab show",
    ],
)
def test_a_run_of_anybodys_is_printed_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    folder = tmp_path / "runs" / "20261122-114450-oltp-approaches"
    folder.mkdir(parents=True)
    for path in (RUNS / "oltp-approaches").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    run = json.loads((folder / "run.json").read_text())
    for name in ("title", "preset", "postgres_version", "stopped"):
        run[name] += EVIL
    for one in run["approaches"]:
        one["title"] += EVIL
    for one in run["devices"]:
        one["summary"] += EVIL
    for one in run["attempts"]:
        one["polluted"] = EVIL
    (folder / "run.json").write_text(json.dumps(run))
    words = line.replace("RUN", str(folder)).split()
    printed(capsys, *words, "--store", str(tmp_path), codes=(0, 1, 2))


# ---- cells of CSV


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (FORMULA, f"'{FORMULA}"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-1+1", "'-1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "' =1"),
        ("\uff1d1", "'\uff1d1"),
        ("-1.5", "-1.5"),
        ("-3 %", "-3 %"),
        ("+2e5", "+2e5"),
        ("a=b", "a=b"),
        ("x;=1+1;y; -2;\uff1d3", "x;'=1+1;y; '-2;'\uff1d3"),
        (";\t=1", "; '=1"),
        ("\x1b[2J", "\\u001b[2J"),
        (-1, "-1"),
        (None, ""),
    ],
)
def test_no_cell_is_a_formula(capsys: pytest.CaptureFixture[str], value: object, cell: str) -> None:
    print_csv(("head",), [(value,), ("last",)])
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[1] in ([cell], [] if cell == "" else None)
