# SPDX-License-Identifier: PostgreSQL
"""The cache's own memory in huge pages, as far as this kernel has them."""

import ctypes
import mmap
import os
import re
import tempfile
from pathlib import Path

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, process_titles
from support.cluster import ClusterFactory
from support.patience import eventually
from support.warm import assert_true, crash, create_warm, start_again

KERNEL = Path("/sys/kernel/mm/transparent_hugepage")
MAP_FIXED = 0x10
MADV_COLLAPSE = 25


def huge_page_bytes() -> int:
    """Return the size of a huge page if the kernel makes one in /dev/shm now; else 0."""
    if not KERNEL.is_dir() or "[never]" in (KERNEL / "enabled").read_text():
        return 0
    size = int((KERNEL / "hpage_pmd_size").read_text())
    libc = ctypes.CDLL(None)
    with tempfile.TemporaryFile(dir="/dev/shm") as file, mmap.mmap(-1, 2 * size) as reserved:
        os.posix_fallocate(file.fileno(), 0, size)
        first = ctypes.c_char.from_buffer(reserved)
        at = ctypes.c_void_p(-(-ctypes.addressof(first) // size) * size)
        del first
        both = mmap.PROT_READ | mmap.PROT_WRITE
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap(at, ctypes.c_size_t(size), both, mmap.MAP_SHARED | MAP_FIXED, file.fileno(), 0)
        made = libc.madvise(at, ctypes.c_size_t(size), MADV_COLLAPSE) == 0
    return size if made else 0


def mapped_huge_bytes(cached: CachedServer) -> int:
    """Return how much of the cache's memory the kernel says its worker has in huge pages."""
    worker = next(pid for pid, title in process_titles(cached.server) if title == "pgflash")
    found = re.search(
        r"/dev/shm/pgflash\..*?ShmemPmdMapped: *(\d+) kB",
        Path(f"/proc/{worker}/smaps").read_text(),
        re.S,
    )
    assert found is not None
    return int(found[1]) * 1024


def test_a_large_index_is_put_into_huge_pages_after_the_start(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    page = huge_page_bytes()
    cached = create_warm(cluster, pgflash_install, settings={"pgflash.cache_size_max": "2GB"})

    def assert_in_huge_pages() -> None:
        if page > 0:
            assert eventually(lambda: cached.view()["metadata_huge_bytes"] > 0)
        # The kernel may refuse some, and the rest of the last page is left out.
        assert eventually(lambda: cached.view()["metadata_huge_bytes"] == mapped_huge_bytes(cached))
        view = cached.view()
        assert view["metadata_huge_bytes"] <= view["metadata_bytes"]

    assert_in_huge_pages()
    assert_true(cached)
    crash(cached)
    assert start_again(cached).startswith("warm: its memory")
    assert_in_huge_pages()
    assert_true(cached)

    cached.server.stop()
    cached.server.configure({"pgflash.warm_restart": "off"})
    cached.start()
    assert cached.view()["metadata_huge_bytes"] is None
