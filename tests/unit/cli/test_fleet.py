# SPDX-License-Identifier: PostgreSQL
"""pgflash fleet on a Patroni that is not one's friend, and on command lines that are wrong."""

import json

import pytest

from pgflash.cli import main
from pgflash.report.printed import shown
from support.answering import answering, document
from support.commands import failure, output

ESCAPE = "\x1b]0;owned\x07\nroot: "
HOSTILE = {
    "scope": ESCAPE,
    "members": [
        {"name": ESCAPE, "role": ESCAPE, "state": ESCAPE, "host": "/tmp", "port": 5432},
        {"name": "=cmd()", "role": "replica", "state": "running", "host": "db1,db2", "port": 1},
        {"name": "lost", "role": "replica", "state": "running"},
    ],
}


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_nothing_that_patroni_says_reaches_the_terminal_as_a_command(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    with answering(document(HOSTILE)) as told:
        text = output(capsys, "fleet", "status", "--patroni", told.url, "--format", form)
    assert text == "".join(one if one == "\n" else shown(one) for one in text)
    assert not any(line.startswith("root: ") for line in text.splitlines())
    assert "\n=cmd()" not in text or form == "table"


def test_an_address_that_is_no_hosts_is_not_connected_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with answering(document(HOSTILE)) as told:
        found = json.loads(
            output(capsys, "fleet", "status", "--patroni", told.url, "--format", "json")
        )
    problems = [one["problem"] for one in found["members"]]
    assert problems == [
        "the address that Patroni has is not one of a host",
        "the address that Patroni has is not one of a host",
        "Patroni does not know the address of its server",
    ]


def test_a_table_without_an_answering_server_still_has_a_row_for_each(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("no-socket")
    dsn = f"host={folder} dbname=app"
    found = json.loads(
        output(capsys, "fleet", "status", "--dsn", dsn, "--dsn", dsn, "--format", "json")
    )
    names = [one["name"] for one in found["members"]]
    assert names == [str(folder), f"{folder} (2)"]
    assert all(one["problem"].startswith("could not connect") for one in found["members"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status"], "no server was named"),
        (["status", "--patroni", "http://a", "-d", "x", "-d", "y"], "--dsn is given once"),
        (["status", "--patroni", "http://user:s3cret@a"], "visible to all users"),
        (["switchover"], "--patroni"),
        (["switchover", "--patroni", "http://a", "--when-warm", "90 apples"], "is not a share"),
        (["switchover", "--patroni", "http://a", "--when-warm", "120%"], "is not a share"),
        (["switchover", "--patroni", "http://a", "--when-warm", "nan"], "is not a share"),
        (["switchover", "--patroni", "http://a", "--timeout", "soon"], "is not a time"),
        (["tag", "--patroni", "http://a"], "--file"),
    ],
)
def test_a_wrong_command_line_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    text = failure(capsys, 2, "fleet", *words)
    assert said in text
    assert "s3cret" not in text


def test_a_switchover_asks_before_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(document(HOSTILE)) as told:
        text = failure(capsys, 1, "fleet", "switchover", "--patroni", told.url)
    assert "confirm with --yes" in text
    assert told.requests == []


def test_a_cluster_without_a_leader_is_not_switched_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with answering(document(HOSTILE)) as told:
        text = failure(capsys, 1, "fleet", "switchover", "--patroni", told.url, "--yes")
    assert "the cluster has no leader; Patroni was not asked" in text
    assert not any(one.startswith(b"POST") for one in told.requests)


def test_shares_are_percents_or_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(document(HOSTILE)) as told:
        for word in ("90%", "90 %", "0.9", "100%"):
            words = ["fleet", "switchover", "--patroni", told.url, "--yes", "--when-warm", word]
            assert main(words) == 1
            assert "no leader" in capsys.readouterr().err
