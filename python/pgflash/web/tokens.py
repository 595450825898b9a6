# SPDX-License-Identifier: PostgreSQL
"""The file that keeps the token: read, or made where there is none.

It is nobody's but ours: we look at the file that is open, not at its name.  It is made only in
a folder where nobody else can put something in its place, and is there as a whole or not at all,
so two that start at once have the same token.
"""

import contextlib
import os
import pwd
import secrets
import stat
from pathlib import Path

from pgflash.errors import PgflashError, UsageError

_TOKEN_BYTES = 24
_FILE_MAX_BYTES = 4096


class TokenError(PgflashError):
    """There is no token, and none could be made."""


def default_file() -> Path:
    """Return where the token is kept unless told otherwise.

    In the home that the system knows of: sudo may leave HOME as it was.
    """
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not folder.startswith("/"):
        try:
            folder = f"{pwd.getpwuid(os.geteuid()).pw_dir}/.config"
        except KeyError:
            raise TokenError(
                "this user has no home to keep a token in", hint="--token-file names a file."
            ) from None
    return Path(folder, "pgflash", "token")


def token_of(path: Path) -> str:
    """Return the token that a file keeps; make both if there is no file."""
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    try:
        _make(path)
        return _read(path)
    except OSError as error:
        raise TokenError(
            f'could not keep a token in "{path}": {error.strerror}',
            hint="--token-file names another file.",
        ) from error


def _read(path: Path) -> str:
    try:
        # A pipe has no writer to wait for.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f'could not read "{path}": {error.strerror}') from error
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise UsageError(f'"{path}" is no file')
        if facts.st_uid not in (os.geteuid(), 0):
            raise UsageError(f'"{path}" belongs to another user, who knows what is in it')
        if facts.st_mode & 0o077:
            raise UsageError(
                f'others may read "{path}"', hint=f"Make it yours alone: chmod 600 {path}"
            )
        content = os.read(file, _FILE_MAX_BYTES)
    finally:
        os.close(file)
    try:
        token = content.decode().strip()
    except UnicodeDecodeError as error:
        raise UsageError(f'could not read "{path}": it is no text') from error
    if not token:
        raise UsageError(f'"{path}" is empty')
    return token


def _make(path: Path) -> None:
    """Make a file with a new token, unless there is one meanwhile."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        facts = os.fstat(folder)
        if facts.st_uid not in (os.geteuid(), 0) or facts.st_mode & 0o022:
            raise UsageError(
                f'"{path}" is not there, and others may write to its folder',
                hint="Name a file in a folder of your own, or make it yourself.",
            )
        part = f".{path.name}.{secrets.token_hex(4)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(part, flags, 0o600, dir_fd=folder), "w") as opened:
                opened.write(f"{secrets.token_urlsafe(_TOKEN_BYTES)}\n")
            with contextlib.suppress(FileExistsError):
                os.link(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)
    finally:
        os.close(folder)
