# SPDX-License-Identifier: PostgreSQL
"""The owner of the server's files, and all work on them, which is done as that user.

Root must not work by name in folders of another user: that user can put a link there at any moment,
and root would follow it with all of root's rights.  So do() forks a child that permanently becomes
the owner, with the owner's groups, and works there; the child can reach nothing that the owner
cannot.  If we are not root, we are the owner, and no child is needed.

A child answers in JSON: a line for each beat of a copy, and one at the end.  Of our files it keeps
only the locks open (held).  The user that it has become cannot trace it, and the kernel kills it
when we die (PR_SET_PDEATHSIG).  A lock is released only after the last child has ended, so a
process that continues after a kill never meets a child at work.  If only the child is killed, that
is an error like a full disk: its work is continued later.

What root does itself, in make_folder(): it creates and gives away the folder that the
administrator named, if nobody but root can change what that name leads to.
"""

import contextlib
import ctypes
import errno
import gc
import json
import os
import pwd
import signal
import stat
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pgflash.place.errors import PlaceError
from pgflash.trusted import ROOT, ChangeableError, opened_parent

#: Called with the number of bytes copied since the last call.
Beat = Callable[[int], None]

_Result = TypeVar("_Result")

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38

#: A terminal sends these signals to all of its processes: the parent decides what to do then.
_ASKED_TO_END = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}

#: Files that a child keeps open: locks, which must outlive us until the child has ended.
_held = set[int]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of folders, and their mode."""

    uid: int
    gid: int
    #: 0700, or 0750 if the group may read, as in the data directory.
    mode: int

    @classmethod
    def of(cls, folder: Path) -> "Owner":
        """Return the owner of a folder."""
        status = folder.stat()
        return cls(uid=status.st_uid, gid=status.st_gid, mode=stat.S_IMODE(status.st_mode) & 0o750)

    @property
    def name(self) -> str:
        """The user's name."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def groups(self) -> list[int]:
        """Return the user's groups, the primary one first; the folder's if the user is unknown."""
        try:
            own = pwd.getpwuid(self.uid).pw_gid
        except KeyError:
            return [self.gid]
        return [own, *(one for one in os.getgrouplist(self.name, own) if one != own)]

    def as_user(self) -> dict[str, Any]:
        """Return the arguments that let root run a program as the owner, with its groups."""
        if os.geteuid() != 0:
            return {}
        self._refuse_root()
        groups = self.groups()
        return {"user": self.uid, "group": groups[0], "extra_groups": groups}

    def do(
        self,
        work: Callable[..., _Result],
        *args: object,
        beat: Beat | None = None,
        **options: object,
    ) -> _Result:
        """Return what a function returns (words, numbers, lists) when the owner calls it."""
        if beat is not None:
            options["beat"] = beat
        if os.geteuid() != 0:
            return work(*args, **options)
        self._refuse_root()
        groups, parent = self.groups(), os.getpid()
        reader, writer = os.pipe()
        # Nothing may interrupt the child before it ignores these signals.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED_TO_END)
        try:
            child = os.fork()
            if child == 0:
                _serve(self.uid, groups, parent, writer, blocked, work, args, options)
            os.close(writer)
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            with os.fdopen(reader, "rb") as lines:
                answer = _answer(lines, beat)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            _pid, status = os.waitpid(child, 0)
        if answer is None:
            raise PlaceError(
                f"the process that works as {self.name} was killed ({_how_it_ended(status)})",
                hint="Find out what did that, and resume: the interrupted step is not taken "
                "for done.",
            )
        return _unwrapped(answer)  # type: ignore[no-any-return]

    def _refuse_root(self) -> None:
        """Refuse root as the owner of a server, which never runs as root."""
        if self.uid == 0:
            raise PlaceError(
                "the data directory belongs to root, and no server of PostgreSQL does",
                hint="See what --dsn leads to.",
            )


@contextlib.contextmanager
def held(number: int) -> Iterator[None]:
    """Let children keep a lock that we hold."""
    _held.add(number)
    try:
        yield
    finally:
        _held.discard(number)


# ---- the child


def _serve(
    uid: int,
    groups: list[int],
    parent: int,
    pipe: int,
    blocked: set[int],
    work: Callable[..., object],
    args: tuple[object, ...],
    options: dict[str, object],
) -> NoReturn:
    """Become the owner, work, answer and end."""
    answer: dict[str, object]
    try:
        # Do not finalize the parent's objects here: some would talk to servers.
        gc.disable()
        for number in _ASKED_TO_END:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _become(uid, groups, parent)
        _let_go_of_files({pipe, *_held})
        if "beat" in options:
            options = {**options, "beat": lambda done: _tell(pipe, {"beat": done})}
        answer = {"done": work(*args, **options)}
    except PlaceError as error:
        answer = {"refused": [error.message, error.hint]}
    except OSError as error:
        named = None if error.filename is None else os.fsdecode(error.filename)
        answer = {"errno": [error.errno, error.strerror, named]}
    except BaseException:
        answer = {"broken": traceback.format_exc()}
    try:
        _tell(pipe, answer)
    finally:
        os._exit(0)


def _become(uid: int, groups: list[int], parent: int) -> None:
    """Permanently become a user whose processes cannot look into us, and end with PARENT."""
    os.setgroups(groups)
    os.setresgid(groups[0], groups[0], groups[0])
    os.setresuid(uid, uid, uid)
    with contextlib.suppress(PermissionError):
        os.setuid(0)
        os._exit(1)
    # A change of user resets these options, so they are set after it.
    for option, value in (
        (_PR_SET_DUMPABLE, 0),
        (_PR_SET_NO_NEW_PRIVS, 1),
        (_PR_SET_PDEATHSIG, signal.SIGKILL),
    ):
        if _LIBC.prctl(option, int(value), 0, 0, 0) != 0:
            os._exit(1)
    if os.getppid() != parent:
        os._exit(1)  # the parent was gone before we could be told
    os.umask(0o077)
    os.chdir("/")


def _let_go_of_files(kept: set[int]) -> None:
    """Close the files that the parent has open: sessions, plans, the terminal."""
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - names are numbers
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)
    # A file opened next must not be taken for the terminal.
    while (number := os.open("/dev/null", os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)


def _tell(pipe: int, answer: dict[str, object]) -> None:
    view = memoryview(json.dumps(answer).encode() + b"\n")
    while view:
        view = view[os.write(pipe, view) :]


# ---- what it answered


def _answer(lines: Any, beat: Beat | None) -> dict[str, Any] | None:  # noqa: ANN401 - an open file
    """Return the last line, or None if the child ended without one."""
    for line in lines:
        if not line.endswith(b"\n"):
            return None
        answer: dict[str, Any] = json.loads(line)
        if "beat" not in answer:
            return answer
        if beat is not None:
            beat(answer["beat"])
    return None


def _unwrapped(answer: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the work returned
    """Return what was returned, or raise what was raised."""
    if "refused" in answer:
        message, hint = answer["refused"]
        raise PlaceError(message, hint=hint)
    if "errno" in answer:
        number, words, name = answer["errno"]
        raise OSError(number, words, name)
    if "broken" in answer:
        raise RuntimeError(answer["broken"])
    return answer["done"]


def _how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"


# ---- the folder that was asked for


def make_folder(path: Path, owner: Owner, *, was_asked_for: bool) -> bool:
    """Make a folder that the server may use, or check that it is one; say if it was made.

    WAS_ASKED_FOR: the administrator named it.  Root makes no folder that anybody else named.
    """
    try:
        made = was_asked_for and os.geteuid() == 0 and _make_as_root(path, owner)
        return owner.do(_make_as_owner, path, owner.uid, owner.mode) or made
    except OSError as error:
        raise PlaceError(
            f"could not make {path}: {error.strerror}",
            hint="Make it yourself, owned by the server's user, and empty.",
        ) from error


def _make_as_root(path: Path, owner: Owner) -> bool:
    """Make a folder and give it away, if only root can change what its name leads to."""
    with contextlib.suppress(ChangeableError), opened_parent(path, who=ROOT) as (parent, name):
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=parent, follow_symlinks=False)
            return False
        # Use another name until it belongs to the owner: a kill must not leave a half-made folder.
        new = f".{name}.pgflash-new"
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(new, dir_fd=parent)
        os.mkdir(new, 0o700, dir_fd=parent)
        folder = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            gid = owner.gid if owner.gid in owner.groups() else owner.groups()[0]
            os.fchmod(folder, owner.mode)
            os.fchown(folder, owner.uid, gid)
            os.fsync(folder)
        finally:
            os.close(folder)
        os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
        _sync_parent(parent)
        return True
    return False


def remove_folder(path: Path, owner: Owner) -> None:
    """Remove an empty folder, as the user who may."""
    with contextlib.suppress(OSError):
        owner.do(os.rmdir, path)
        return
    if os.geteuid() == 0:
        with (
            contextlib.suppress(ChangeableError, OSError),
            opened_parent(path, who=ROOT) as (parent, name),
        ):
            os.rmdir(name, dir_fd=parent)


def _make_as_owner(path: Path, uid: int, mode: int) -> bool:
    """Make a missing folder, and check that it is a folder of the server's user."""
    made = False
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
        made = True
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        refuse_strange(path, os.fstat(folder), uid)
        os.fchmod(folder, mode)
        os.fsync(folder)
    finally:
        os.close(folder)
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with contextlib.suppress(PermissionError):
            _sync_parent(parent)  # root has synced it if the owner may not read it
    finally:
        os.close(parent)
    return made


def _sync_parent(parent: int) -> None:
    number = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def refuse_strange(path: Path, status: os.stat_result, uid: int) -> None:
    """Refuse anything that is not a folder of the server's user."""
    if not stat.S_ISDIR(status.st_mode):
        raise PlaceError(f"{path} is no folder")
    if status.st_uid != uid:
        raise PlaceError(f"{path} does not belong to the server's user", hint=f"chown {uid} {path}")


def refuse_folder(path: Path, owner: Owner) -> None:
    """Refuse a folder that the server could not use or that cannot be made for it."""
    try:
        if owner.do(_is_usable, path, owner.uid):
            return
    except PermissionError as error:
        raise PlaceError(
            f"the server's user {owner.name} cannot enter {error.filename}",
            hint="Give all folders above it the right to be entered (chmod o+x), or name another.",
        ) from error
    why = f"nothing can be written to {path.parent} by {owner.name}"
    if os.geteuid() == 0:
        try:
            with opened_parent(path, who=ROOT):
                return
        except (ChangeableError, OSError) as error:
            why += (
                f", and root creates no folder where others can change a folder above it ({error})"
            )
    raise PlaceError(why, hint=f"Create {path} yourself, owned by {owner.name}, and empty.")


def _is_usable(path: Path, uid: int) -> bool:
    """Say whether the server can use the folder, or its user can make it."""
    above = path.parent
    # Test each of them in turn, so that the folder that shuts the user out is named.
    for folder in (*reversed(above.parents), above):
        if folder.is_dir() and not os.access(folder, os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
    if not above.is_dir():
        raise PlaceError(f"there is no folder {above}", hint="Make it first.")
    with contextlib.suppress(FileNotFoundError):
        refuse_strange(path, path.stat(), uid)
        return True
    return os.access(above, os.W_OK)
