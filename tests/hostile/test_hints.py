# SPDX-License-Identifier: PostgreSQL
"""An administrator trusts a hint and types it: none makes an application's role a superuser.

Mallory asks an administrator to have tables moved as her role, and passes on the rights that
pgflash says are missing.  The administrator copies it.  Where the table belongs to a superuser, or
to a role whose members can become one, that must not be a GRANT of that role.
"""

from collections.abc import Iterator

import psycopg
import pytest

from pgflash.place import Cluster
from pgflash.place.errors import PlaceError
from pgflash.place.relations import TABLE_KINDS, find_relation, refuse_relation
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory

pytestmark = pytest.mark.extension  # roles have other rights on other majors

OWNERS = {
    "postgres": False,
    "second_superuser": False,
    "member_of_a_superuser": False,
    "member_of_a_member": False,
    "runs_programs": False,
    "writes_files": False,
    "makes_roles": False,
    "plain": True,
}


@pytest.fixture(scope="module")
def server(pg_install: PgInstall) -> Iterator[Server]:
    """A server with a table for each kind of owner, and Mallory's role."""
    factory = ClusterFactory(pg_install)
    server = factory()
    with server.connect() as connection:
        for statement in (
            "create role mallory login; create role plain",
            "create role second_superuser superuser",
            "create role member_of_a_superuser in role second_superuser",
            "create role member_of_a_member in role member_of_a_superuser",
            "create role runs_programs in role pg_execute_server_program",
            "create role writes_files in role pg_write_server_files",
            "create role makes_roles createrole",
        ):
            connection.execute(statement)
        for owner in OWNERS:
            connection.execute(
                f"create table of_{owner} (); alter table of_{owner} owner to {owner}"
            )
    yield server
    factory.close()


@pytest.mark.parametrize(("owner", "may_be_granted"), OWNERS.items())
def test_a_role_that_leads_to_superuser_is_not_to_be_granted(
    server: Server, owner: str, may_be_granted: bool
) -> None:
    dsn = psycopg.conninfo.make_conninfo(server.conninfo(), user="mallory")
    with Cluster(dsn) as cluster:
        relation = find_relation(cluster, f"of_{owner}", kinds=TABLE_KINDS)
        with pytest.raises(PlaceError, match=f'belongs to role "{owner}"') as refused:
            refuse_relation(cluster, relation)
    assert ("GRANT" in refused.value.hint) is may_be_granted
    assert f"Connect as {owner}" in refused.value.hint
