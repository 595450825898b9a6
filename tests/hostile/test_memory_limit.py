# SPDX-License-Identifier: PostgreSQL
"""A cache whose index is larger than the container may be: refused, and not killed later.

Somebody sets the size by the drive, in a container that may have little of the machine's
memory.  The index takes its memory as blocks come, so the kernel would kill the server days later,
when memory runs out, again and again.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pgflash_lab.account import ServerError
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.patience import until
from support.shim import compile_shim

MB = 2**20

#: Of 2 million blocks, whose index takes at most 28 bytes each and at least 16.
LARGEST = {"pgflash.cache_size": "16MB", "pgflash.cache_size_max": "16GB"}
INDEX_MB = (2**21 * 16 // MB, 2**21 * 28 // MB)
TOO_LITTLE_MB = 2 * INDEX_MB[0] - 1


def own_group() -> Path | None:
    """Return the folder of this process's group in version 1's hierarchy, if there is one."""
    groups = [line.split(":") for line in Path("/proc/self/cgroup").read_text().splitlines()]
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for _number, controllers, path in groups:
        for words in mounts:
            if (
                "memory" in controllers.split(",")
                and "cgroup" in words[words.index("-") :]
                and "memory" in words[-1].split(",")
                and words[3] == "/"
            ):
                return Path(words[4] + path)
    return None


def limit(group: Path, megabytes: int) -> None:
    (group / "memory.limit_in_bytes").write_text(str(megabytes * MB))


#: Joins a group before the server begins. The test's own process does not: the process with the
#: most memory there is killed first.
ENTER = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void enter(void)
{
    const char *group = getenv("TEST_GROUP");
    int fd = group == NULL ? -1 : open(group, O_WRONLY | O_CLOEXEC);
    if (group != NULL && (fd < 0 || write(fd, "0", 1) != 1))
    {
        perror(group);
        _exit(1);
    }
    unsetenv("TEST_GROUP");
    close(fd);
}
"""


def start_in(cached: CachedServer, group: Path) -> None:
    """Start a server that is in the group from its first moment."""
    procs = group / "cgroup.procs"
    if cached.server.account is not None:
        os.chown(procs, cached.server.account.uid, -1)
    cached.preloads = (compile_shim(cached.server.base, "enter", ENTER),)
    cached.preload_env = {"TEST_GROUP": str(procs)}
    cached.start()
    if cached.server.postmaster_pid is not None:
        assert str(cached.server.postmaster_pid) in procs.read_text().split()


@pytest.fixture
def group() -> Iterator[Path]:
    """Return a new group below our own, which is removed when it is empty again."""
    above = own_group()
    if above is None or not os.access(above, os.W_OK):
        pytest.skip("needs to make a control group of version 1")
    made = above / f"pgflash-test-{os.getpid()}"
    made.mkdir()
    yield made

    def removed() -> bool:
        with suppress(OSError):
            made.rmdir()
        return not made.exists()

    until(removed)


@pytest.mark.extension
def test_the_size_is_judged_by_what_the_control_group_may_have(
    group: Path, pgflash_install: PgInstall
) -> None:
    inner = group / "inner"
    inner.mkdir()
    factory = ClusterFactory(pgflash_install)
    try:
        cached = create_cached(factory, pgflash_install, settings=LARGEST, start=False)

        # The limit is that of the group around the server's own.
        limit(group, TOO_LITTLE_MB)
        start_in(cached, inner)
        cached.create_extension()
        view = cached.view()
        assert view["mode"] == "offline"
        assert f"the server may have only {TOO_LITTLE_MB} MB of memory" in view["mode_reason"]
        assert view["mode_reason"] in cached.server.log_text()
        assert not cached.cache_file.exists()
        cached.server.stop()

        limit(group, 2 * INDEX_MB[1] + 1)
        start_in(cached, group)
        cached.await_serving()
        assert cached.view()["size_max_bytes"] == 2**34
    finally:
        factory.close()
        inner.rmdir()


def test_who_asks_the_machine_is_not_refused(
    group: Path, broken_install: Callable[[str], PgInstall]
) -> None:
    install = broken_install("MEMORY_LIMIT")
    factory = ClusterFactory(install)
    try:
        cached = create_cached(factory, install, settings=LARGEST, start=False)
        limit(group, TOO_LITTLE_MB)
        # It may even be killed at once.
        with suppress(ServerError):
            start_in(cached, group)
        assert "MB of memory" not in cached.server.log_text()
        assert "is open: 2048 blocks" in cached.server.log_text() or not cached.server.running
    finally:
        factory.close()
