# SPDX-License-Identifier: PostgreSQL
"""A server that was built with liburing reads by io_uring in all tests, and is served so.

What io_uring does to the cache is tested by the other tests of this room, which such a server
passes like any other (support/uring.py); here it is only made sure that it does use it.
"""

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.items import create_items, settle
from support.patience import eventually
from support.uring import has_uring, uring_forbidden


@pytest.mark.extension
def test_a_server_with_liburing_reads_by_it_and_is_served(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    if has_uring(pgflash_install) and uring_forbidden():
        pytest.skip(f"reads by io_uring: it is forbidden here ({uring_forbidden()})")
    cached = create_cached(cluster, pgflash_install)
    with cached.server.connect() as connection:
        used = connection.execute("select setting from pg_settings where name = 'io_method'")
        before_18 = pgflash_install.major < 18
        expected = "io_uring" if has_uring(pgflash_install) else "worker"
        assert used.fetchall() == ([] if before_18 else [(expected,)])
        create_items(connection, 5000)
        settle(connection)

        def is_served() -> bool:
            connection.execute("select count(pad) from item where id % 3 = 0")
            return int(cached.view()["verify_compared"]) > 300

        assert eventually(is_served)
    cached.assert_serving()
