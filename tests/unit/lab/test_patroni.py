# SPDX-License-Identifier: PostgreSQL
"""What a Patroni cluster needs before it can be described; real ones are in tests/cluster."""

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgflash_lab.account import ServerError
from pgflash_lab.patroni import (
    ClusterPlan,
    PatroniCluster,
    PatroniMissingError,
    require_patroni,
    wait_for,
)
from support.installs import no_install


@pytest.mark.parametrize("missing", ["patroni", "pysyncobj", "cryptography"])
def test_the_package_that_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def version(name: str) -> str:
        if name == missing:
            raise importlib.metadata.PackageNotFoundError(name)
        return "4.1.5"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(PatroniMissingError, match=f"package {missing} is") as raised:
        require_patroni()
    assert "-m pip install patroni pysyncobj cryptography" in raised.value.hint


def test_what_was_waited_for_in_vain_is_named() -> None:
    with pytest.raises(ServerError, match="in vain until a member leads"):
        wait_for("a member leads", lambda: False, wait_s=0.0)


# ---- passwords


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PatroniCluster]:
    """A cluster that is described, and not started."""
    pytest.importorskip("patroni", reason="make venv-dev")
    monkeypatch.setattr("pgflash_lab.patroni.server_account", lambda: None)  # copies no packages
    plan = ClusterPlan(dynamic={}, parameters={})
    one = PatroniCluster(no_install(tmp_path), tmp_path, plan, packages=tmp_path)
    yield one
    one.close()


def configuration(cluster: PatroniCluster) -> dict[str, Any]:
    """Return what the first member's Patroni is told."""
    member = cluster.members[0]
    member._write_configuration()
    path = member.config / "10-patroni.yml"
    assert path.stat().st_mode & 0o777 == 0o600
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def test_each_cluster_has_a_password_of_its_own() -> None:
    first, second = (ClusterPlan(dynamic={}, parameters={}) for _ in range(2))
    assert first.password != second.password
    assert len(first.password) >= 43, "256 bits"
    assert first.password not in repr(first)


def test_every_connection_over_loopback_needs_the_password(cluster: PatroniCluster) -> None:
    told, password = configuration(cluster), cluster.plan.password
    assert told["raft"]["password"] == password
    assert told["restapi"]["authentication"]["password"] == password
    roles = told["postgresql"]["authentication"]
    assert {one["password"] for one in roles.values()} == {password}
    assert set(roles) == {"superuser", "replication", "rewind"}
    for line in told["postgresql"]["pg_hba"]:
        assert line.startswith("local ") or line.endswith(" scram-sha-256")


def test_a_file_that_is_there_is_replaced_and_no_link_followed(
    cluster: PatroniCluster, tmp_path: Path
) -> None:
    (tmp_path / "aim").write_text("mine")
    (cluster.members[0].config / "10-patroni.yml").symlink_to(tmp_path / "aim")
    configuration(cluster)
    assert (tmp_path / "aim").read_text() == "mine"


def test_only_the_superuser_s_connection_has_the_password(cluster: PatroniCluster) -> None:
    member, password = cluster.members[0], cluster.plan.password
    assert conninfo_to_dict(member.conninfo())["password"] == password
    assert conninfo_to_dict(cluster.conninfo("app"))["password"] == password
    assert "password" not in conninfo_to_dict(member.conninfo(user="watcher"))
