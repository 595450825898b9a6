# SPDX-License-Identifier: PostgreSQL
"""A block that is read while it is written is not cached as it was before."""

import pytest

from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.never_stale import can_race, race


def test_a_block_read_while_it_is_written_is_not_cached_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    if not can_race(pgflash_install):
        pytest.skip(f"PostgreSQL {pgflash_install.version} here has no pg_prewarm")
    view = race(cluster, pgflash_install, compared_min=200).view()
    # Reads did lose races, and their blocks were not kept.
    assert view["insert_skip_modification"] > 0, view
