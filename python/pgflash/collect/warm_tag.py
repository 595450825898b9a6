# SPDX-License-Identifier: PostgreSQL
"""The tag of a Patroni's member that says whether its cache is warm, in a file of its own.

Tags are configuration of the member, in its files; Patroni has no request that sets one.  Patroni
can be started with a folder of files, which it merges.  So the tag has a file of its own there, and
the administrator's files are never written.  A user who can write to that folder can make Patroni
run anything, so we check that only its own user and root can.
"""

import os
from pathlib import Path

from pgflash.errors import PgflashError
from pgflash.trusted import ChangeableError, opened_parent, ours, read_file, replace_file

TAG = "pgflash_warm"

_HEAD = "# Written by pgflash fleet tag.\n"


class TagError(PgflashError):
    """The file of the tag cannot be used."""


def _content(is_warm: bool) -> bytes:
    return f"{_HEAD}tags:\n  {TAG}: {'true' if is_warm else 'false'}\n".encode()


def read_tag(path: Path) -> bool | None:
    """Return the tag that a file has; None without the file."""
    if path.suffix != ".yml":
        raise TagError(
            f'Patroni reads no file of the name "{path.name}"', hint="It must end in .yml.",
        )  # fmt: skip
    try:
        content = read_file(path)
    except FileNotFoundError:
        return None
    except ChangeableError as error:
        raise TagError(f'"{path}" is not read: {error.message}', hint=error.hint) from error
    except OSError as error:
        raise TagError(f'could not read "{path}": {error.strerror}') from error
    for is_warm in (True, False):
        if content == _content(is_warm):
            return is_warm
    raise TagError(
        f'"{path}" was not written by pgflash fleet tag', hint="Name a file of its own for the tag."
    )


def write_tag(path: Path, *, is_warm: bool) -> None:
    """Write the file of the tag, as a whole; Patroni's user can read it."""
    try:
        with opened_parent(path, who=ours()) as (folder, name):
            replace_file(folder, name, _content(is_warm), mode=0o644, sync=False)
    except ChangeableError as error:
        raise TagError(f'"{path}" is not written: {error.message}', hint=error.hint) from error
    except OSError as error:
        raise TagError(f'could not write "{path}": {os.strerror(error.errno or 0)}') from error
