# SPDX-License-Identifier: PostgreSQL
"""What doctor says that a server needs, held against what the server itself says."""

import pytest

from pgflash.advise.doctor.memory import _shared_bytes
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory

MB = 2**20


@pytest.mark.parametrize("preload", ["", "pgflash"])
def test_shared_memory_grows_with_shared_buffers_by_no_more_than_is_reserved_for_it(
    cluster: ClusterFactory, pgflash_install: PgInstall, preload: str
) -> None:
    server = cluster(install=pgflash_install, preload=preload, start=False)

    def shared_bytes(buffers: str) -> int:
        words = ["postgres", "-D", str(server.data), "-C", "shared_memory_size"]
        done = server.run([*words, "-c", f"shared_buffers={buffers}"])
        return int(done.stdout) * MB

    before = shared_bytes("128MB")
    for megabytes in (256, 4096, 65536):
        more = (megabytes - 128) * MB
        grown = shared_bytes(f"{megabytes}MB") - before
        assert more < grown <= _shared_bytes(more) <= grown + more // 100 + 64 * MB
