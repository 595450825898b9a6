# SPDX-License-Identifier: PostgreSQL
"""The file with the token, which is created if there is none.

Nobody else may read or write it, which is checked on the open file, not by its name.  It is created
only in a folder where nobody else can replace it.  It appears complete or not at all, so two
processes that start at once use the same token.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from pgflash.errors import PgflashError, UsageError
from pgflash.trusted import config_folder

_TOKEN_BYTES = 24
_FILE_MAX_BYTES = 4096


class TokenError(PgflashError):
    """There is no token, and none can be created."""


def default_file() -> Path:
    """Return the default path of the token's file."""
    try:
        return config_folder() / "pgflash" / "token"
    except KeyError:
        raise TokenError(
            "this user has no home folder for a token", hint="--token-file names a file."
        ) from None


def token_of(path: Path) -> str:
    """Return the token in a file; create both if there is no file."""
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
        # If it is a pipe, do not wait for its writer.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f'could not read "{path}": {error.strerror}') from error
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise UsageError(f'"{path}" is not a file')
        if facts.st_uid not in (os.geteuid(), 0):
            raise UsageError(f'"{path}" belongs to another user, who can read it')
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
    """Create a file with a new token, unless another process has just done so."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        facts = os.fstat(folder)
        if facts.st_uid not in (os.geteuid(), 0) or facts.st_mode & 0o022:
            raise UsageError(
                f'"{path}" does not exist, and others may write to its folder',
                hint="Name a file in your own folder, or create it yourself.",
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
