# SPDX-License-Identifier: PostgreSQL
"""A kernel without cachestat, as before Linux 6.5 or in a container that forbids it.

A filter of system calls (seccomp) gives the answer, as in container runtimes. Even then, blocks in
the page cache must not touch flash.
"""

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgflash.collect.host_settings import read_host
from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import eventually
from support.shim import compile_shim

#: Makes the calls CALLS fail with ERROR in a process, from its start, and in all its children.
FILTER = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define CACHESTAT 451
static const int calls[] = {{ {calls} }};
__attribute__((constructor)) static void forbid(void)
{{
    struct sock_filter program[3 + 2 * sizeof(calls) / sizeof(calls[0])];
    struct sock_fprog filter = {{ .filter = program }};

    program[filter.len++] = (struct sock_filter)
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    {{
        program[filter.len++] = (struct sock_filter)
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) calls[i], 0, 1);
        program[filter.len++] = (struct sock_filter)
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | {error});
    }}
    program[filter.len++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        abort();
}}
"""


@pytest.fixture
def server(cluster: ClusterFactory, pgflash_install: PgInstall) -> Server:
    """Return a server with a cache, not started."""
    server = cluster(install=pgflash_install, start=False)
    flash = make_server_dir(server.base / "flash")
    server.configure(
        {
            "shared_preload_libraries": "pgflash",
            "pgflash.cache_file": str(flash / "cache"),
            "pgflash.cache_size": "64MB",
            "pgflash.verify": "all",
            "shared_buffers": "1MB",
        }
    )
    return server


def start_without(server: Server, folder: Path, calls: str, error: int) -> None:
    """Start the server with a filter, and wait until the cache serves."""
    shim = compile_shim(folder, "filter", FILTER.format(calls=calls, error=error))
    folder.chmod(0o755)
    server.start({"LD_PRELOAD": str(shim)})
    with server.connect() as session:
        session.execute("create extension pgflash")
    assert eventually(lambda: view(server)["mode"] == "serve")


def view(server: Server) -> Mapping[str, object]:
    with server.connect() as session:
        cursor = session.execute("select * from pgflash_cache")
        row = cursor.fetchone()
        assert row is not None
        assert cursor.description is not None
        return dict(zip((column.name for column in cursor.description), row, strict=True))


def read_again_and_again(server: Server) -> tuple[int, int]:
    """Read a table in the page cache; return how many blocks came from there, and how many not."""
    with server.connect() as session:
        session.execute("create table item as select g id from generate_series(1, 300000) g")
        session.execute("vacuum analyze item")
        session.execute("checkpoint")
        before = view(server)
        for _ in range(5):
            session.execute("select count(*) from item")
    after = view(server)

    def gained(*names: str) -> int:
        return sum(int(str(after[name])) - int(str(before[name])) for name in names)

    return gained("page_cache_reads"), gained("hits", "misses")


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM], ids=["ENOSYS", "EPERM"])
def test_what_the_page_cache_holds_does_not_touch_flash(server: Server, error: int) -> None:
    start_without(server, server.base, "CACHESTAT", error)
    assert view(server)["page_cache_check"] == "mincore"
    from_memory, others = read_again_and_again(server)
    assert from_memory > 4000
    assert others < from_memory / 10


def test_a_kernel_that_answers_nothing_is_named(server: Server) -> None:
    start_without(server, server.base, "CACHESTAT, __NR_mincore", errno.EPERM)
    assert view(server)["page_cache_check"] == "none"
    from_memory, others = read_again_and_again(server)
    assert from_memory == 0
    assert others > 4000


def aio_in(server: Server) -> bool | None:
    """Say whether the doctor sees a queue of AIO."""
    pid = server.postmaster_pid
    assert pid is not None
    return read_host(pid).has_aio


def test_a_server_that_may_use_aio_does(server: Server) -> None:
    server.start()
    assert eventually(lambda: aio_in(server))


def test_where_io_uring_and_aio_are_forbidden_the_cache_serves(server: Server) -> None:
    """As the default profiles of container runtimes forbid io_uring, and some sandboxes AIO."""
    forbidden = "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup"
    calls = ", ".join(f"__NR_{one}" for one in forbidden)
    if server.install.major >= 18:
        server.configure(
            {"io_method": "worker"}
        )  # a server that is to use io_uring would not start
    start_without(server, server.base, f"CACHESTAT, __NR_mincore, {calls}", errno.EPERM)
    before = view(server)["hits"]

    def are_served() -> bool:
        read_again_and_again(server)
        return int(str(view(server)["hits"])) > int(str(before)) + 1000

    assert eventually(are_served)
    after = view(server)
    assert (after["mode"], after["verify_mismatches"]) == ("serve", 0)
    assert aio_in(server) is False
