# SPDX-License-Identifier: PostgreSQL
"""The user that servers run as, and what that user can reach.

PostgreSQL refuses to run as root.  If the driver is root, servers and client programs run as
`postgres`, or `nobody` if there is no such user.  That user must be able to reach the installation,
the base folder and preloaded libraries; whatever it cannot reach (a clone below /root, for example)
is copied or moved below /var/tmp, and the log says so.
"""

import contextlib
import hashlib
import logging
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgflash.errors import PgflashError
from pgflash_lab.postgres import PgInstall

log = logging.getLogger(__name__)

#: Where files go that the server's user could not reach in their own place.
REACHABLE_BASE = Path("/var/tmp")


class ServerError(PgflashError):
    """The private server could not be made, started or stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The ordinary user that runs a root driver's programs."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """Return the user that servers run as, or None if it is the driver's own."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise ServerError(
        "PostgreSQL does not run as root, and there is no user postgres or nobody",
        hint="Run as an ordinary user.",
    )


def as_server_user(*, with_driver: str = "") -> list[str]:
    """Return the words before a command that drop root, extra groups included.

    WITH_DRIVER names the signal that the kernel sends the command when the driver ends; the command
    does not begin if the driver had ended before the kernel was told. setpriv drops root because
    Python, if told to do so itself, copies its own memory for each start.
    """
    account = server_account()
    if account is None and not with_driver:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ServerError(
            "setpriv is needed so that no server outlives its driver",
            hint="Install the util-linux package.",
        )
    words = [setpriv]
    if account is not None:
        words += [f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
    if not with_driver:
        return [*words, "--"]
    is_there = '[ "$PPID" = "$0" ] && exec "$@"'
    return [*words, "--pdeathsig", with_driver, "--", "sh", "-c", is_there, str(os.getpid())]


def make_server_dir(path: Path) -> Path:
    """Make a folder owned by the server's user, for a WAL or a tablespace location, for example."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    account = server_account()
    if account is not None:
        os.chown(path, account.uid, account.gid)
    return path


def is_reachable(path: Path, *, mode: Literal["-r", "-x"] = "-r") -> bool:
    """Say whether the server's user can read (or enter, or run) PATH."""
    done = subprocess.run([*as_server_user(), "test", mode, path], check=False)
    return done.returncode == 0


def reachable_file(path: Path) -> Path:
    """Return PATH, or a copy of it that the server's user can read."""
    if is_reachable(path):
        return path
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    copy = our_dir() / f"{digest}-{path.name}"
    if not copy.exists():
        temporary = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copy(path, temporary)
        temporary.chmod(0o755)
        temporary.replace(copy)
    return copy


def reachable_preloads(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a server, with copies of libraries that its user cannot read."""
    reached = dict(variables)
    if "LD_PRELOAD" in reached:
        paths = [reachable_file(Path(path)) for path in reached["LD_PRELOAD"].split(":")]
        reached["LD_PRELOAD"] = ":".join(map(str, paths))
    return reached


def reachable_dir(path: Path) -> Path:
    """Return PATH, made if need be, or another folder that the server's user can enter."""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_reachable(path.parent, mode="-x"):
        path.mkdir(exist_ok=True)
        return path
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    instead = our_dir() / f"{path.name}-{digest}"
    log.warning("%s cannot be reached by the server's user: using %s", path, instead)
    instead.mkdir(exist_ok=True)
    return instead


def reachable_install(install: PgInstall) -> PgInstall:
    """Return the installation, or an up-to-date copy that the server's user can run."""
    if is_reachable(install.bindir / "postgres", mode="-x") and is_reachable(install.sharedir):
        return install
    dest = our_dir() / f"postgresql-{install.major}-{install.fingerprint()}"
    log.warning(
        "%s cannot be reached by the server's user: running a copy in %s", install.root, dest
    )
    return install.copy_to(dest)


def our_dir() -> Path:
    """Return our folder below REACHABLE_BASE, made so that nobody else can plant files in it."""
    folder = REACHABLE_BASE / f"pgflash-{os.geteuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise ServerError(f"{folder} belongs to somebody else", hint="Remove it.")
    return folder
