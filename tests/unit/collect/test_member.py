# SPDX-License-Identifier: PostgreSQL
"""How a server is connected to that Patroni names: nothing is sent that was meant for another."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgflash.collect.member import is_host, member_dsn, read_member
from pgflash.session import SessionError


@pytest.mark.parametrize("name", ["db1", "db1.example.org", "10.0.0.1", "::1", "fe80::1%eth0"])
def test_names_and_addresses_are_hosts(name: str) -> None:
    assert is_host(name)


@pytest.mark.parametrize(
    "name",
    ["", "/tmp", "@socket", "db1,evil", "db1 user=postgres", "db1\n", "-h", "a" * 254, "dé", "a'"],
)
def test_folders_lists_and_further_words_are_no_hosts(name: str) -> None:
    assert not is_host(name)


def test_database_and_role_are_the_users_and_the_address_is_patronis() -> None:
    found = conninfo_to_dict(member_dsn("dbname=app user=watcher host=mine port=1", "db1", 5433))
    assert {name: found[name] for name in ("host", "port", "dbname", "user")} == {
        "host": "db1",
        "port": "5433",
        "dbname": "app",
        "user": "watcher",
    }


def test_neither_the_password_nor_the_address_of_the_users_own_server_is_used() -> None:
    found = conninfo_to_dict(
        member_dsn("host=mine hostaddr=10.0.0.9 password=s3cret dbname=app", "db1", 5432)
    )
    assert (found["password"], found["hostaddr"]) == ("", "")


def test_a_wrong_connection_string_is_refused() -> None:
    with pytest.raises(SessionError):
        member_dsn("nonsense=1", "db1", 5432)


def test_a_server_that_does_not_answer_says_why(tmp_path_factory: pytest.TempPathFactory) -> None:
    facts = read_member(f"host={tmp_path_factory.mktemp('no-socket')} dbname=app")
    assert facts.problem.startswith("could not connect: ")
    assert (facts.in_recovery, facts.warmth) == (None, None)
