# SPDX-License-Identifier: PostgreSQL
"""The tests of the sampler detect a library that lacks its safeguards."""

from collections.abc import Callable

from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.patience import eventually
from support.sampled import rows, seen_by, sleeping


def test_without_its_check_of_rights_everybody_would_see_everything(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    server = cluster(install=broken_install("SAMPLE_RIGHTS"), preload="pgflash")
    rows(server, "create extension pgflash")
    rows(server, "create role nobody_special")
    with sleeping(server) as pid:
        assert eventually(lambda: pid in seen_by(server, "nobody_special"))
