# SPDX-License-Identifier: PostgreSQL
"""pgflash version: which versions work together, and which steps of an upgrade are left."""

import json
import platform

import psycopg
import pytest

import pgflash
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.commands import output
from support.script import SQL_VERSION, offer_before

pytestmark = pytest.mark.extension


def test_a_server_tells_its_library_its_sql_and_what_is_left_to_do(
    cluster: ClusterFactory, pgflash_install: PgInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash")

    def lines() -> list[str]:
        return output(capsys, "version", "--dsn", server.conninfo()).splitlines()

    with server.connect() as connection:
        (postgresql,) = connection.execute("show server_version").fetchone() or ("",)
        assert lines() == [
            f"command:    {pgflash.__version__}",
            f"kernel:     {platform.system()} {platform.release()} {platform.machine()}",
            f"PostgreSQL: {postgresql}",
            f"library:    {SQL_VERSION}",
            "extension:  none in database postgres",
            f"installed:  {SQL_VERSION}",
        ]
        offer_before(server.install)
        connection.execute("create extension pgflash version '0.1'")
        assert lines()[4] == "extension:  0.1 in database postgres"
        assert "ALTER EXTENSION pgflash UPDATE" in lines()[-1]
        connection.execute("alter extension pgflash update")
        assert lines()[-1] == f"installed:  {SQL_VERSION}"
        told = json.loads(output(capsys, "version", "-d", server.conninfo(), "--format", "json"))
        assert (told["library"], told["extension"]) == (SQL_VERSION, SQL_VERSION)
        assert told["remedy"] == ""


def test_the_librarys_version_is_shown_and_nobody_can_set_it(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash")
    with server.connect() as connection:
        with pytest.raises(psycopg.Error, match="cannot be changed"):
            connection.execute("set pgflash.version = '9'")
        with pytest.raises(psycopg.Error, match="cannot be changed"):
            connection.execute("alter system set pgflash.version = '9'")
    server.stop()
    with (server.data / "postgresql.conf").open("a") as file:
        file.write("pgflash.version = '9'\n")
    server.start()
    with server.connect() as connection:
        assert connection.execute("show pgflash.version").fetchone() == (SQL_VERSION,)


def test_a_server_without_pgflash_says_what_it_lacks(
    cluster: ClusterFactory, pgflash_install: PgInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    server = cluster(install=pgflash_install)
    shown = output(capsys, "version", "--dsn", server.conninfo()).splitlines()
    assert shown[3] == "library:    not loaded"
    assert shown[-1].startswith("Add pgflash to shared_preload_libraries")


def test_a_server_that_cannot_be_reached_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, "version", "-h", "/nowhere").splitlines()
    assert shown[0] == f"command:    {pgflash.__version__}"
    assert shown[2].startswith("server:     could not connect: ")
