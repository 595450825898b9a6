# SPDX-License-Identifier: PostgreSQL
"""`make -C extension installcheck`, as PostgreSQL people run it, on a server of each major."""

import os
import subprocess
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import create_cached
from support.cluster import REPOSITORY, ClusterFactory


@pytest.mark.extension
def test_installcheck_passes(
    cluster: ClusterFactory, pgflash_install: PgInstall, tmp_path: Path
) -> None:
    server = create_cached(cluster, pgflash_install).server
    with server.connect() as connection:
        connection.execute("drop extension pgflash")
        where = {
            "PGHOST": connection.info.host,
            "PGPORT": str(connection.info.port),
            "PGUSER": connection.info.user,
        }
    done = subprocess.run(
        [
            *("make", "--no-print-directory", "-C", REPOSITORY / "extension", "installcheck"),
            *(f"PG_CONFIG={pgflash_install.pg_config}", f"BUILD={tmp_path}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
            **pgflash_install.env,
            **where,
        },
    )
    differences = tmp_path / "regression.diffs"
    assert done.returncode == 0, done.stdout + (
        differences.read_text() if differences.exists() else done.stderr
    )
