# SPDX-License-Identifier: PostgreSQL
"""What the library looks for in the import table of a server's executable.

Generated from definitions/ by `make generate`.
"""

#: The names that the library replaces.
REPLACED = (
    "open",
    "open64",
    "openat",
    "openat64",
    "creat",
    "creat64",
    "__open_2",
    "__open64_2",
    "close",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "fcntl64",
    "pread",
    "pread64",
    "__pread_chk",
    "__pread64_chk",
    "preadv",
    "preadv64",
    "read",
    "__read_chk",
    "posix_fadvise",
    "posix_fadvise64",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev64",
    "write",
    "writev",
    "copy_file_range",
    "posix_fallocate",
    "posix_fallocate64",
    "fallocate",
    "fallocate64",
    "ftruncate",
    "ftruncate64",
    "truncate",
    "truncate64",
    "unlink",
    "remove",
    "rename",
    "fopen",
    "fopen64",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "syncfs",
    "dlopen",
)

#: The same, if the server reads by io_uring.
URING_REPLACED = (
    "io_uring_submit",
    "io_uring_peek_batch_cqe",
    "io_uring_wait_cqes",
)

#: Groups of names; of each, one has to be imported.
REQUIRED = (
    ("open", "open64", "__open_2", "__open64_2"),
    ("close",),
    ("pread", "pread64", "__pread_chk", "__pread64_chk"),
    ("pwrite", "pwrite64"),
    ("ftruncate", "ftruncate64"),
    ("truncate", "truncate64"),
    ("unlink",),
)

#: The same, if the server reads by io_uring.
URING_REQUIRED = (
    ("io_uring_submit",),
    ("io_uring_peek_batch_cqe",),
    ("io_uring_wait_cqes",),
)

#: A server that imports one of these is refused.
FOREIGN = (
    "pwritev2",
    "pwritev64v2",
    "unlinkat",
    "renameat",
    "renameat2",
    "sendfile",
    "sendfile64",
    "splice",
    "vmsplice",
    "aio_write",
    "aio_write64",
    "lio_listio",
    "lio_listio64",
)
