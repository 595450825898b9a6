# SPDX-License-Identifier: PostgreSQL
"""Every function of libc that can change files is watched in libraries, or known to be harmless.

If a newer libc adds one, this test fails: it belongs in library_calls.c, or in calls.toml
(`unwatched`) with its reason.
"""

import re
from pathlib import Path

import pytest

from support.imports import calls, defined, replaced

#: Names of functions that may change a file, its name, or what a descriptor is.
SUSPECT = re.compile(
    r"_*(IO_)?(open|openat|creat|dup|fcntl|write|pwrite|send_?file|splice|vmsplice|tee|copy_file"
    r"|ftrunc|trunc|fallocate|posix_fallocate|mmap|mremap|msync|ioctl|unlink|remove|rename|link"
    r"|fopen|freopen|fdopen|tmpfile|mkstemp|mkostemp|fsync|fdatasync|sync_file_range|syncfs|aio_"
    r"|lio_|ftw|process_vm_writev|name_to_handle|shm_open|syscall)"
)


def libc() -> Path | None:
    """Return this machine's libc."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if re.search(r"/libc[.-][^/]*so[^/]*$", line):
            return Path(line.split()[-1])
    return None


def test_every_function_that_changes_files_is_watched_in_libraries() -> None:
    path = libc()
    if path is None:
        pytest.skip("this Python is not linked to a libc that is a library")
    suspects = {name for name in defined(path) if SUSPECT.match(name)}
    watched = replaced("library_calls.c")
    assert {"pwrite", "ftruncate", "rename"} <= suspects & watched
    assert not suspects - watched - set().union(*calls()["unwatched"].values())
