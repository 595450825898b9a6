# SPDX-License-Identifier: PostgreSQL
"""Each rule of a warm restart, and a build without it: this shows the rule's purpose.

Without stamps (test_warm_restart.py), writers in flight (test_warm_in_flight.py) or boot ids
(test_power_cut.py) stale blocks are served and caught.  Each rule here is backed by another one:
without the rule the cache goes further than it should, and the test names the check that refuses
then.  So no stale block is served, and it shows that the rule made the difference.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.patience import eventually
from support.warm import (
    assert_true,
    crash,
    create_warm,
    forget_memory,
    read_table,
    serves,
    start_again,
)

InstallOf = Callable[[str], PgInstall]


def copy_as_owned(source: Path, dest: Path) -> None:
    """Copy a cache file over another one, and keep that one's owner."""
    owner = dest.stat()
    new = dest.with_name("new")
    shutil.copy2(source, new)
    os.chown(new, owner.st_uid, owner.st_gid)
    new.replace(dest)


def crash_without_memory(cached: CachedServer) -> None:
    """Crash, on a machine whose shared memory is gone afterwards: a container's."""
    crash(cached)
    assert forget_memory(cached)


def crash_with_older_copy(cached: CachedServer) -> None:
    """Crash, continue, change rows, crash again; and restore the cache file of the first crash."""
    older = cached.cache_file.with_name("older")
    crash(cached)
    shutil.copy2(cached.cache_file, older)
    assert start_again(cached).startswith("warm: its memory")
    with cached.server.connect() as session:
        session.execute("update item set v = v + 1")
        session.execute("checkpoint")
    read_table(cached)
    read_table(cached)
    crash(cached)
    copy_as_owned(older, cached.cache_file)


def initialise_again(cached: CachedServer) -> None:
    """Stop, and make another cluster in the same data directory."""
    server = cached.server
    server.stop()
    for path in server.data.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    server.run(["initdb", "-D", server.data, "-U", "postgres", "-A", "trust", "--no-sync",
                "--encoding=UTF8", "--locale=C", "--data-checksums"])  # fmt: skip
    server.configure({})


def move_to_a_copy(cached: CachedServer) -> None:
    """Stop, and continue with a copy of the data directory."""
    data = cached.server.data
    cached.server.stop()
    cached.server.run(["/bin/cp", "-a", data, data.with_name("copy")])
    data.rename(data.with_name("original"))
    data.with_name("copy").rename(data)


def raise_maximum(cached: CachedServer) -> None:
    """Stop, and continue with a larger cache: blocks then have other home sets."""
    cached.server.stop()
    cached.server.configure({"pgflash.cache_size_max": "96MB"})


def run_without_us(cached: CachedServer) -> None:
    """Stop, and kill a server without the cache that changed a table."""
    cached.server.stop()
    cached.server.configure({"shared_preload_libraries": ""})
    cached.server.start()
    with cached.server.connect() as session:
        session.execute("update item set v = v + 1 where i % 2 = 0")
    crash(cached)
    cached.server.configure({"shared_preload_libraries": "pgflash"})


#: The event, the rule's verdict, and the verdict without the rule, by whichever check.
RULES = [
    pytest.param(
        "CLEAN", crash_without_memory, "not shut down", "cold: ", "run without", id="clean"
    ),
    pytest.param(
        *("NONCE", crash_with_older_copy, "not those", "warm: ", "memory"),
        id="nonce",
        marks=pytest.mark.soak,
    ),
    pytest.param("GEOMETRY", raise_maximum, "size", "warm: ", "map", id="geometry"),
    pytest.param("CHECKPOINT", run_without_us, "run without", "warm: ", "map", id="checkpoint"),
    pytest.param(
        "SYSTEM", initialise_again, "another cluster's", "cold: ", "run without", id="system"
    ),
    pytest.param("DIRECTORY", move_to_a_copy, "data directory's", "warm: ", "map", id="directory"),
]


def start_replaced(cached: CachedServer) -> str:
    """Start a server that may have been replaced; return why its cache is warm or cold."""
    cached.start()
    cached.create_extension()
    assert eventually(lambda: serves(cached)), cached.server.log_text()[-3000:]
    return str(cached.view()["start_reason"])


@pytest.mark.parametrize(("fault", "event", "why", "kind_without", "why_without"), RULES)
def test_a_rule_is_what_refuses(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    broken_install: InstallOf,
    fault: str,
    event: Callable[[CachedServer], None],
    why: str,
    kind_without: str,
    why_without: str,
) -> None:
    cached = create_warm(cluster, pgflash_install)
    event(cached)
    reason = start_replaced(cached)
    assert reason.startswith("cold: ")
    assert why in reason
    assert reason in cached.server.log_text(since_start=True)

    cached = create_warm(cluster, broken_install(fault))
    event(cached)
    reason = start_replaced(cached)
    assert reason.startswith(kind_without), reason
    assert why_without in reason
    if fault != "SYSTEM":
        read_table(cached)
    # Behind the clean flag and the cluster: the control file.  Behind the nonce: each block's
    # checksum.  Behind the geometry: a block is taken in only at its home.  Behind the others:
    # stamps, as far as a power cut leaves them right.
    if fault == "NONCE":
        assert cached.view()["corrupt_slots"] > 0
    elif fault in ("GEOMETRY", "CHECKPOINT"):
        assert cached.view()["files_kept"] > 0
    else:
        assert cached.view()["files_kept"] == 0
    assert_true(cached)
