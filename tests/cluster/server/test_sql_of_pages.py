# SPDX-License-Identifier: PostgreSQL
"""A server answers every statement of the guides."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import create_cached
from support.cluster import REPOSITORY, ClusterFactory

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))


def statements(text: str) -> list[str]:
    """Return the statements in a page's blocks of SQL, without their comments."""
    blocks = re.findall(r"^```sql\n(.*?)^```", text, re.M | re.S)
    bare = re.sub(r"--.*$", "", ";".join(blocks), flags=re.M)
    return [one.strip() for one in bare.split(";") if one.strip()]


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """A server with a cache, and the tables that the pages mention."""
    factory = ClusterFactory(pgflash_install)
    server = create_cached(factory, pgflash_install).server
    with server.connect() as connection:
        connection.execute("create table orders (id int primary key, customer text)")
        connection.execute("create table audit_log (said text)")
    yield server
    factory.close()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if statements(page.read_text())],
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_what_a_page_says_to_ask_is_answered(server: Server, page: Path) -> None:
    asked = statements(page.read_text())
    with server.connect() as connection:
        connection.autocommit = True
        # Each page stands alone: several may create the same role.
        for role in re.findall(r"^CREATE ROLE (\w+)", "\n".join(asked), re.M):
            connection.execute(f"drop role if exists {role}")
        for statement in asked:
            if statement == "CREATE EXTENSION pgflash":
                continue  # it is there
            if statement.startswith("CREATE EXTENSION pgflash SCHEMA"):
                connection.execute("drop extension pgflash")
            try:
                connection.execute(statement)
            except psycopg.Error as error:
                pytest.fail(f"{statement}: {error}")
        if "CREATE SCHEMA pgflash" in asked:
            connection.execute("drop schema pgflash cascade")
            connection.execute("create extension pgflash schema public")


def test_pages_have_statements() -> None:
    assert len(statements((REPOSITORY / "README.md").read_text())) > 5
