# SPDX-License-Identifier: PostgreSQL
"""Whatever libc has for changing files is watched in libraries, or is known to do no harm.

A function that a newer libc brings makes this fail: it belongs into library_calls.c, or into
HARMLESS with its reason.
"""

import re
import subprocess
from pathlib import Path

import pytest

from support.cluster import REPOSITORY

SOURCE = REPOSITORY / "extension" / "src" / "hooks" / "library_calls.c"

#: Names of functions that may change a file, its name, or what a descriptor is.
SUSPECT = re.compile(
    r"_*(IO_)?(open|openat|creat|dup|fcntl|write|pwrite|send_?file|splice|vmsplice|tee|copy_file"
    r"|ftrunc|trunc|fallocate|posix_fallocate|mmap|mremap|msync|ioctl|unlink|remove|rename|link"
    r"|fopen|freopen|fdopen|tmpfile|mkstemp|mkostemp|fsync|fdatasync|sync_file_range|syncfs|aio_"
    r"|lio_|ftw|process_vm_writev|name_to_handle|shm_open|syscall)"
)

HARMLESS = {
    "to a pipe only": {"vmsplice", "tee"},
    "no file of data": {"shm_open", "open_memstream", "open_wmemstream"},
    "a new file, of a name that no data file has": {
        *("mkstemp", "mkstemp64", "mkstemps", "mkstemps64", "mkostemp", "mkostemp64"),
        *("mkostemps", "mkostemps64", "tmpfile", "tmpfile64"),
    },
    "opens without a change; a write asks the kernel": {
        *("open_by_handle_at", "name_to_handle_at", "open_tree", "fopencookie", "openlog"),
        *("opendir", "fdopendir", "openpty", "process_vm_writev"),
    },
    "of a mapping that was seen when it was made": {"mremap", "msync"},
    "reads, waits or gives up": {
        *("aio_read", "aio_read64", "aio_cancel", "aio_cancel64", "aio_error", "aio_error64"),
        *("aio_fsync", "aio_fsync64", "aio_init", "aio_return", "aio_return64", "aio_suspend"),
        *("aio_suspend64", "ftw", "ftw64"),
    },
    "no file at all": {
        *("duplocale", "__duplocale", "removexattr", "create_module"),
        *("_IO_link_in", "_IO_remove_marker"),
    },
    "cannot be seen; the guide says so": {"syscall"},
}


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
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
    ).stdout
    names = {
        line.split()[-1].split("@")[0]
        for line in listed.splitlines()
        if line.split()[1] in "TWi" and "GLIBC_PRIVATE" not in line
    }
    suspects = {name for name in names if SUSPECT.match(name)}
    watched = {
        name + suffix
        for kind, name in re.findall(r'IMPORT(_64)?\("(\w+)"', SOURCE.read_text())
        for suffix in (("", "64") if kind else ("",))
    }
    assert {"pwrite", "ftruncate", "rename"} <= suspects & watched
    assert not suspects - watched - set().union(*HARMLESS.values())
