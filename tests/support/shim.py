# SPDX-License-Identifier: PostgreSQL
"""Small C libraries that tests preload into a server, to make a call fail or wait."""

import subprocess
import textwrap
from pathlib import Path

#: A machine without Linux AIO: then the cache reads and writes with pread and pwrite, which a
#: library can replace.
WITHOUT_AIO = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
long syscall(long number, ...)
{
    long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall");
    long a[6];
    va_list arguments;

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_io_setup)
    {
        errno = ENOSYS;
        return -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"""

#: A full device under each cache file: it reserves half of what it is asked for.
FULL_FLASH = """
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int posix_fallocate(int fd, off_t offset, off_t size)
{
    char link[64];
    char path[4096] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) < 0)
        return EIO;
    /* As far as there is room; not at all elsewhere than on "flash". */
    if (ftruncate(fd, strstr(path, "/flash/cache") ? size / 2 : offset + size) != 0)
        return EIO;
    return strstr(path, "/flash/cache") ? ENOSPC : 0;
}
"""


def compile_shim(folder: Path, name: str, source: str) -> Path:
    """Return a library made from SOURCE that the server's user can read."""
    path = folder / f"{name}.so"
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-x", "c", "-o", path, "-", "-ldl"],
        input=textwrap.dedent(source),
        text=True,
        check=True,
    )
    path.chmod(0o755)
    return path
