# SPDX-License-Identifier: PostgreSQL
"""What commands print on a terminal of 80 columns: no number is cut, nor folded by the terminal."""

import json
import re
from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo
from rich.cells import cell_len

from pgflash.cli import main
from pgflash_lab.postgres import PgInstall
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.patience import until
from support.terminal import PGFLASH, terminal

WIDTH = 80
#: Wide enough for tables that a narrow terminal would continue below.
WIDE = 132
LONG_NAME = "orders_of_every_customer_by_their_names_and_numbers_of_2026"
NUMBER = re.compile(r"[<>]*-?\d[\d,]*(\.\d+)?")
#: Commands that print the same again, since the snapshots are kept.
SAME = [
    ("report", "--from", "1", "--to", "2", "--zeros", "--oracle"),
    ("compare", "1..2", "2..3"),
    ("baseline",),
]
#: Commands whose output changes from one time to the next, such as ages and probes.
OTHERS = [
    ("snapshots",),
    ("cache",),
    ("check",),
    ("devices",),
    ("memory",),
    ("doctor",),
    ("advise", "--flash-bytes", "10GB"),
    ("version",),
    ("lab", "list"),
]
#: Commands without a server.
ALONE = ("memory", "lab")


@pytest.fixture(scope="module")
def dsn(pgflash_install: PgInstall) -> Iterator[str]:
    """A server with a long name, a baseline and three snapshots, as a monitoring role sees it."""
    factory = ClusterFactory(pgflash_install)
    cached = create_cached(factory, pgflash_install, settings={"pgflash.snapshot_interval": "0"})
    with cached.server.connect() as connection:
        connection.execute("create role watcher login in role pg_monitor")
        for i in range(3):
            connection.execute("select pgflash_snapshot()")
            connection.execute(f"create table {LONG_NAME}_{i} as select generate_series(1, 50000)")
            connection.execute(f"delete from {LONG_NAME}_{i}")
            connection.execute("select pg_stat_force_next_flush()")
        connection.execute("select pgflash_baseline_keep('a baseline with a name', 1, 2)")
    yield make_conninfo(cached.server.conninfo(), user="watcher")
    factory.close()


def printed(dsn: str, words: tuple[str, ...], columns: int) -> str:
    server = () if words[0] in ALONE else ("-d", dsn)
    environment = {"PAGER": "cat", "PGFLASH_CONFIG": "", "COLUMNS": None, "LINES": None}
    # A long operation reports its progress on standard error, and erases it.
    command = ("sh", "-c", 'exec "$@" 2>/dev/null', "sh", *PGFLASH, *words, *server)
    with terminal(command, columns=columns, environment=environment) as one:
        text = one.rest()
    assert one.child.returncode in (0, 1)  # check and doctor find something
    return text


def wide_lines(text: str) -> list[str]:
    """Return the lines that the terminal would fold; commands to be copied are whole."""
    copied = re.compile(r"    \S")
    return [line for line in text.split("\n") if cell_len(line) > WIDTH and not copied.match(line)]


def numbers(text: str) -> set[str]:
    return {word for word in text.split() if NUMBER.fullmatch(word)}


@pytest.mark.parametrize("words", [*SAME, *OTHERS], ids=lambda words: words[0])
def test_no_line_is_wider_than_the_terminal_and_none_is_cut(
    dsn: str, words: tuple[str, ...]
) -> None:
    text = printed(dsn, words, WIDTH)
    assert len(text.split("\n")) >= 3
    assert wide_lines(text) == []
    assert "…" not in text


@pytest.mark.parametrize("words", SAME, ids=lambda words: words[0])
def test_every_number_of_a_wide_terminal_is_whole_on_a_narrow_one(
    dsn: str, words: tuple[str, ...]
) -> None:
    wide, narrow = (numbers(printed(dsn, words, columns)) for columns in (WIDE, WIDTH))
    assert len(wide) >= 2
    assert wide <= narrow


def test_a_program_reads_one_line_for_each_check(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second of two calls may know what the first could not."""

    def agree() -> bool:
        assert main(["check", "-d", dsn, "--format", "json"]) in (0, 1)
        found = json.loads(capsys.readouterr().out)
        assert main(["check", "-d", dsn]) in (0, 1)
        lines = capsys.readouterr().out.splitlines()
        return [line.split(":")[0] for line in lines] == [
            f"{one['outcome']} {one['rule']}, {one['subject']}" for one in found
        ]

    until(agree)
