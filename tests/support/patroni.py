# SPDX-License-Identifier: PostgreSQL
"""A real Patroni cluster for a test: the lab's, with settings that suit tests.

Timings are Patroni's shortest for its loop, so that tests are not slow, and long for everything
that a busy machine could miss: the leader's key lives for thirty seconds, and failsafe mode keeps a
leader that cannot reach Raft while it reaches the members.
"""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pgflash_lab.account import reachable_dir, server_account
from pgflash_lab.leftovers import remove_tree
from pgflash_lab.patroni import (
    NAMES,
    ClusterPlan,
    PatroniCluster,
    PatroniMember,
    PatroniMissingError,
)
from pgflash_lab.postgres import PgInstall
from support.cluster import REPOSITORY, folder_in_memory
from support.patience import PATIENCE_S

__all__ = [
    "PASSWORD",
    "USER",
    "WATCHER",
    "PatroniCluster",
    "PatroniMember",
    "as_patronis_user",
    "running_cluster",
]

#: The login of the REST API.
USER, PASSWORD = "operator", f"s3cret of the API {secrets.token_urlsafe()}"
#: The role that tests look with; it needs no password.
WATCHER = "watcher"

_DYNAMIC = {
    "ttl": 30,
    "loop_wait": 1,
    "retry_timeout": 10,
    "failsafe_mode": True,
    "maximum_lag_on_failover": 1 << 30,
}
#: The same on all members.
_PARAMETERS = {
    "shared_preload_libraries": "pgflash",
    "fsync": "off",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": 40,
    "max_worker_processes": 16,
    "min_wal_size": "4MB",
    "max_wal_size": "64MB",
    "wal_keep_size": "64MB",
    "pgflash.cache_size": "16MB",
    "pgflash.snapshot_interval": 0,
    "pgflash.read_deadline": "10s",
}


@contextlib.contextmanager
def running_cluster(
    install: PgInstall,
    *,
    own_parameters: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[PatroniCluster]:
    """Run a cluster until it is not needed; print its logs if it does not come to be.

    OWN_PARAMETERS are settings of one member, by its name.
    """
    base = Path(tempfile.mkdtemp(prefix="pgflash-test-", dir=folder_in_memory()))
    base.chmod(0o755)
    own = own_parameters or {}
    plan = ClusterPlan(
        dynamic=_DYNAMIC,
        parameters=_PARAMETERS,
        own_parameters={
            name: {"pgflash.cache_file": str(base / name / "cache"), **own.get(name, {})}
            for name in NAMES
        },
        login=(USER, PASSWORD),
        trusted=[WATCHER],
        wait_s=PATIENCE_S,
    )
    try:
        packages = reachable_dir(REPOSITORY / "build" / "pg")
        try:
            cluster = PatroniCluster(install, base, plan, packages=packages)
        except PatroniMissingError as error:
            pytest.skip(f"{error}: make venv-dev")
        try:
            _start(cluster)
            yield cluster
        finally:
            cluster.close()
    finally:
        remove_tree(base)


def _start(cluster: PatroniCluster) -> None:
    try:
        cluster.start()
        with cluster.leader().connect() as connection:
            connection.execute("create extension if not exists pgflash")
    except BaseException:
        print(cluster.log_tails())  # noqa: T201 - pytest shows it with the failure
        raise


@contextlib.contextmanager
def as_patronis_user() -> Iterator[None]:
    """Act as the user that Patroni runs as, whose folder of configuration files it is."""
    account = server_account()
    if account is None:
        yield
        return
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
