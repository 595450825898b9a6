# SPDX-License-Identifier: PostgreSQL
"""The users who can change a path's target, and files that a link must not redirect.

A name such as /srv/plans/a.json is a walk through folders, and anybody who may write to one of them
decides where it ends, at any moment.  So where it matters, a name is looked up folder by folder,
each opened from the one before (openat) and checked before the next step:

with opened_parent(path, who=ours()) as (folder, name): ...  # or ChangeableError: by whom

yields the last folder, open, and the name in it.  A link is followed only if nobody else can have
put it there.  A folder can be changed by its owner and by everybody whom its mode lets write; in a
sticky folder (/tmp) others can create files, but cannot remove or rename ours.  A group that
contains only the user of the same name counts as that user.

write_file() is for root, writing a file to a path that somebody asked for: in another user's folder
it follows no link and opens no existing file.
"""

import contextlib
import errno
import grp
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from pgflash.errors import PgflashError

_LINKS_MAX = 40
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

ROOT = frozenset({0})


class ChangeableError(PgflashError):
    """Somebody else can change what a name leads to."""

    def __init__(self, message: str) -> None:
        """Take a message that says who."""
        super().__init__(message, hint="Name a file in a folder that only you may write to.")


def ours() -> frozenset[int]:
    """Return root, who can do everything anyway, and our own user."""
    return ROOT | {os.geteuid()}


@contextlib.contextmanager
def opened_parent(path: Path, *, who: frozenset[int]) -> Iterator[tuple[int, str]]:
    """Yield the open folder of a path, and its last name; only WHO can change it."""
    with _walked(path, who) as (folder, name, weak):
        if weak:
            raise ChangeableError(weak)
        yield folder, name


@contextlib.contextmanager
def opened_anyway(path: Path, *, who: frozenset[int]) -> Iterator[tuple[int, str, bool]]:
    """Yield the same, and whether only WHO can change it; refuse links once others can."""
    with _walked(path, who) as (folder, name, weak):
        yield folder, name, not weak


@contextlib.contextmanager
def _walked(path: Path, who: frozenset[int]) -> Iterator[tuple[int, str, str]]:
    """Walk to the folder that a path ends in; yield also who else could change the way."""
    names = [*reversed(path.absolute().parts[1:])] or ["."]
    shown, weak, links = "/", "", 0
    folder = os.open("/", _STEP)
    try:
        while True:
            weak = weak or _who_else(os.fstat(folder), shown, who)
            name = names.pop()
            status = _status(folder, name)
            if status is not None and stat.S_ISLNK(status.st_mode):
                links += 1
                if weak or status.st_uid not in who or links > _LINKS_MAX:
                    shown = f"{shown.rstrip('/')}/{name}"
                    raise ChangeableError(f"{shown} is a link that others can change")
                target = Path(os.readlink(name, dir_fd=folder))
                names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
                name = "/" if target.is_absolute() else "."
            elif not names:
                yield folder, name, weak
                return
            if name != ".":
                folder, before = os.open(name, _STEP, dir_fd=folder), folder
                os.close(before)
                shown = str(Path(f"/proc/self/fd/{folder}").readlink())
            names = names or ["."]
    finally:
        os.close(folder)


def who_else(path: Path) -> str:
    """Return, as a sentence, who else can change what is in a folder, or make it; or nothing."""
    try:
        with opened_parent(path / "inside", who=ours()):
            return ""
    except FileNotFoundError:
        pass
    except ChangeableError as error:
        return error.message
    except OSError as error:
        return f"{path} cannot be opened: {error.strerror}"
    above = path.absolute().parent
    if not above.exists():
        return who_else(above)
    status = above.stat()  # its folder may be a sticky one, where others can make it first
    return _who_writes(status, str(above), ours()) or who_else(above)


def make_folders(path: Path) -> None:
    """Make a folder of ours, and missing ones above it, where nobody else can interfere."""
    for folder in (*reversed(path.absolute().parents), path.absolute()):
        with (
            opened_parent(folder, who=ours()) as (above, name),
            contextlib.suppress(FileExistsError),
        ):
            os.mkdir(name, 0o700, dir_fd=above)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _who_else(status: os.stat_result, shown: str, who: frozenset[int]) -> str:
    """Return, as a sentence, who else may change a file or folder; or nothing."""
    if status.st_uid not in who:
        return f"{shown} belongs to {user_name(status.st_uid)}"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""
    return _who_writes(status, shown, who)


def _who_writes(status: os.stat_result, shown: str, who: frozenset[int]) -> str:
    """Return, as a sentence, whom the mode of a file or folder lets write; or nothing."""
    if status.st_mode & stat.S_IWOTH:
        return f"every user may write to {shown}"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid, who):
        return f"the group {_group(status.st_gid)} may write to {shown}"
    return ""


def _is_own_group(gid: int, who: frozenset[int]) -> bool:
    """Say whether a group contains a single user, who is one of these."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwnam(grp.getgrgid(gid).gr_name)
    except KeyError:
        return False
    if user.pw_uid not in who or user.pw_gid != gid or not set(group.gr_mem) <= {user.pw_name}:
        return False
    # A group's members do not include users whose primary group it is.
    return all(one.pw_gid != gid or one.pw_uid == user.pw_uid for one in pwd.getpwall())


def user_name(uid: int) -> str:
    """Return a user's name, or "user 123" if the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def config_folder() -> Path:
    """Return the folder of this user's configuration; KeyError if the user has no home.

    In the home directory that the system knows: sudo may leave HOME unchanged.
    """
    named = os.environ.get("XDG_CONFIG_HOME", "")
    if named.startswith("/"):
        return Path(named)
    return Path(pwd.getpwuid(os.geteuid()).pw_dir, ".config")


def read_file(path: Path) -> bytes:
    """Return the content of a file that only root and we can have written, or raise."""
    with opened_parent(path, who=ours()) as (folder, name):
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with os.fdopen(number, "rb") as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                raise ChangeableError(f"{path} is not a file")
            if weak := _who_else(status, str(path), ours()):
                raise ChangeableError(weak)
            return file.read()


def replace_file(folder: int, name: str, content: bytes, *, mode: int, sync: bool) -> None:
    """Replace a file of an open folder as a whole; a link of this name is replaced, too."""
    temporary = f".{name}.{secrets.token_hex(6)}"
    number = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder
    )
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(number)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file to a path that somebody asked for."""
    if os.geteuid() != 0:
        path.write_bytes(content)
        return
    with opened_anyway(path, who=ROOT) as (folder, name, only_root):
        if only_root:
            path.write_bytes(content)
        elif (there := _status(folder, name)) is not None and not stat.S_ISREG(there.st_mode):
            raise OSError(errno.EEXIST, "it is not a file, and others may write to its folder")
        else:
            replace_file(folder, name, content, mode=0o644, sync=False)
