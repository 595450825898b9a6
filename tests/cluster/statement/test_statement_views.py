# SPDX-License-Identifier: PostgreSQL
"""The rights to see statements, and to set their sums to zero."""

from collections.abc import Callable

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.account import one, rows, session
from support.cluster import ClusterFactory
from support.statements import statements_server


@pytest.mark.extension
@pytest.mark.parametrize("fault", ["", "STATEMENT_RIGHTS"])
def test_the_queries_of_others_are_for_those_who_may_read_all_statistics(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    broken_install: Callable[[str], PgInstall],
    fault: str,
) -> None:
    install = broken_install(fault) if fault else pgflash_install
    server = statements_server(cluster, install, {})
    with session(server) as boss:
        boss.execute("create role stranger; create role observer; grant pg_monitor to observer")
        boss.execute("select count(*) from item")
        owner = one(boss, "select current_user::regrole::oid")

        def queries_of_others(role: str) -> set[bool]:
            boss.execute(f"set role {role}")
            found = rows(
                boss,
                "select queryid is not null as shown from pgflash_statements"
                f" where userid = {owner}",
            )
            assert found
            boss.execute("reset role")
            return {row["shown"] for row in found}

        assert queries_of_others("observer") == {True}
        assert (queries_of_others("stranger") == {False}) is not bool(fault)
        boss.execute("set role stranger")
        boss.execute("select 1, 2, 3")
        own = "select count(*) from pgflash_statements where userid = 'stranger'::regrole"
        assert one(boss, f"{own} and queryid is null") == 0
        assert one(boss, own) > 0


@pytest.mark.extension
def test_only_superusers_set_the_sums_to_zero(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {})
    with session(server) as boss:
        boss.execute("create role stranger; select count(*) from item")
        assert one(boss, "select sum(calls) from pgflash_statements") > 1
        boss.execute("set role stranger")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            boss.execute("select pgflash_statements_reset()")
        boss.execute("reset role")
        boss.execute("select pgflash_statements_reset()")
        # The statement that did it is counted at its end.
        assert one(boss, "select sum(calls) from pgflash_statements") == 1
