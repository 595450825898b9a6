# SPDX-License-Identifier: PostgreSQL
"""make install and make uninstall, as a user types them in his clone."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgflash_lab.account import as_server_user, make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cluster import ASSERTIONS, REPOSITORY, ClusterFactory

#: What make install needs of a clone.
ROOMS = ("Makefile", "core", "extension", "share", "tools")


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, which pytest's own are not if root runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="pgflash-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def destdir() -> Iterator[Path]:
    """Return the folder of a package."""
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """A clone that belongs to an ordinary user: the server's, if we are root."""
    with open_folder() as folder:
        yield cloned(folder / "clone")


def cloned(folder: Path) -> Path:
    """Return a copy of the tracked files in a new folder."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", *ROOMS],
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    )  # fmt: skip
    make_server_dir(folder).chmod(0o755)
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
    owner = folder.stat()
    for path in folder.rglob("*"):
        os.chown(path, owner.st_uid, owner.st_gid)
    return folder


def make(clone: Path, *words: object, as_user: bool = False) -> subprocess.CompletedProcess[str]:
    """Run make in a clone, quickly; as root, as with sudo, or as the clone's owner."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        [*(as_server_user() if as_user else ()), "make", *map(str, words)],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
        env=env | {"CFLAGS": "-O0"},
    )


def fake_pg_config(folder: Path, version: str) -> Path:
    """Return the pg_config of a server whose development package is missing."""
    program = folder / "pg_config"
    program.write_text(
        "#!/bin/sh\n"
        f'case $1 in --version) echo "PostgreSQL {version}" ;;\n'
        f'*) echo "{folder}/${{1#--}}" ;; esac\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("goal", ["install", "uninstall"])
def test_without_a_server_it_says_how_to_name_one(clone: Path, goal: str) -> None:
    done = make(clone, goal)
    assert done.returncode != 0
    assert f"make {goal} PG_CONFIG=/usr/bin/pg_config" in done.stderr


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("15.20 (Debian 15.20-0+deb12u1)", "sudo apt-get install postgresql-server-dev-15"),
        ("18beta1", "postgresql18-devel"),
        ("14.9", "pgflash is for PostgreSQL 15 to 19"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_built(
    clone: Path, tmp_path: Path, version: str, said: str
) -> None:
    done = make(clone, "install", f"PG_CONFIG={fake_pg_config(tmp_path, version)}")
    assert done.returncode != 0
    assert said in done.stderr
    assert "fatal error" not in done.stderr


def test_a_compiler_that_is_missing_is_named(clone: Path, pg_install: PgInstall) -> None:
    done = make(clone, "install", f"PG_CONFIG={pg_install.pg_config}", "CC=no-such-cc -O2")
    assert done.returncode != 0
    assert "there is no no-such-cc -O2. On Debian: sudo apt-get install gcc" in done.stderr


def test_a_program_that_is_no_pg_config_is_said(clone: Path) -> None:
    done = make(clone, "install", "PG_CONFIG=/bin/false")
    assert done.returncode != 0
    assert "/bin/false does not run" in done.stderr


def test_it_installs_says_what_is_next_and_uninstalls(
    clone: Path, pg_install: PgInstall, destdir: Path
) -> None:
    words = (f"PG_CONFIG={pg_install.pg_config}", f"DESTDIR={destdir}")
    library = destdir / pg_install.pkglibdir.relative_to("/") / "pgflash.so"
    scripts = destdir / pg_install.sharedir.relative_to("/") / "extension"

    done = make(clone, "install", *words)
    assert done.returncode == 0, done.stderr
    installed = {library, *scripts.iterdir()}
    assert {"pgflash.so", "pgflash.control"} <= {path.name for path in installed}
    assert all(f"  {path}\n" in done.stdout for path in installed)
    assert "restart the server" in done.stdout
    assert "CREATE EXTENSION pgflash" in done.stdout
    # It has no trace of negative controls and assertions.
    for trace in (b"negative control", b"fc_test_", *ASSERTIONS):
        assert trace not in library.read_bytes()
    # The clone still belongs to its owner, whichever user installed it.
    assert {path.lstat().st_uid for path in clone.rglob("*")} == {clone.stat().st_uid}

    # What is there already is not written again, so a user may ask for it.
    written = library.stat().st_ino
    again = make(clone, "install", *words, as_user=True)
    assert again.returncode == 0, again.stderr
    assert library.stat().st_ino == written

    library.write_text("of an earlier version")
    newer = make(clone, "install", *words)
    assert "ALTER EXTENSION pgflash UPDATE" in newer.stdout

    share = destdir / "usr/local/share"
    shared = [path for path in share.rglob("*") if path.is_file()]
    assert len(shared) > 20
    removed = make(clone, "uninstall", *words)
    assert removed.returncode == 0, removed.stderr
    assert not [path for path in (*installed, *shared) if path.exists()]
    assert not (share / "pgflash").exists()
    missing = make(clone, "uninstall", *words)
    assert missing.returncode != 0
    assert "There is no pgflash in" in missing.stderr


@pytest.mark.parametrize(
    "other", ["opt/pg99/share", "usr/share/postgresql/99", "usr/pgsql-99/share"]
)
def test_uninstall_leaves_another_major_the_files_that_both_share(
    clone: Path, pg_install: PgInstall, destdir: Path, other: str
) -> None:
    """In the layout of the server, and where packages of Debian and PGDG are."""
    pg_config = destdir / "pg_config"
    pg_config.write_text(
        f"#!/bin/sh\ncase $1 in --sharedir) echo /opt/pg{pg_install.major}/share ;; "
        f'*) exec {pg_install.pg_config} "$@" ;; esac\n'
    )
    pg_config.chmod(0o755)
    words = (f"PG_CONFIG={pg_config}", f"DESTDIR={destdir}")
    done = make(clone, "install", *words)
    assert done.returncode == 0, done.stderr
    control = destdir / other / "extension" / "pgflash.control"
    control.parent.mkdir(parents=True)
    control.touch()
    share = destdir / "usr/local/share"
    shared = [path for path in share.rglob("*") if path.is_file()]

    removed = make(clone, "uninstall", *words)
    assert removed.returncode == 0, removed.stderr
    assert str(control) in removed.stdout
    assert control.exists()
    assert [path for path in share.rglob("*") if path.is_file()] == shared
    assert not (destdir / pg_install.pkglibdir.relative_to("/") / "pgflash.so").exists()

    control.unlink()
    make(clone, "install", *words)
    assert make(clone, "uninstall", *words).returncode == 0
    assert not [path for path in shared if path.exists()]


def test_clean_removes_what_was_made_and_no_run_of_the_lab(destdir: Path) -> None:
    folder = cloned(destdir / "clone")
    kept = [
        folder / "out" / name
        for name in ("runs/20261122-1/run.json", "series/1.json", "cache/loaded/PG_VERSION",
                     "example/run.json", "peers/results.json", "by-hand")
    ]  # fmt: skip
    made = [
        folder / name
        for name in ("build/pg/file", "core/build/file", "extension/build/18/file",
                     "out/deb/file.deb", "out/wheels/file.whl", "out/release/SHA256SUMS",
                     "out/image/index.json", "out/fault-matrix/18.txt")
    ]  # fmt: skip
    for path in (*kept, *made):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    done = make(folder, "clean")
    assert done.returncode == 0, done.stderr
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in made if path.parent.exists()] == []


def test_the_manual_and_completions_are_where_man_and_shells_look(
    clone: Path, pg_install: PgInstall, destdir: Path
) -> None:
    words = (f"PG_CONFIG={pg_install.pg_config}", f"DESTDIR={destdir}", "PREFIX=/usr")
    done = make(clone, "install", *words)
    assert f"are in {destdir}/usr/share." in done.stdout
    share = destdir / "usr/share"
    for place in ("bash-completion/completions/pgflash", "zsh/site-functions/_pgflash",
                  "fish/vendor_completions.d/pgflash.fish"):  # fmt: skip
        assert (share / place).read_text() == (REPOSITORY / "share" / place).read_text()
    if shutil.which("man"):
        shown = subprocess.run(
            ["man", "pgflash-report"], check=True, capture_output=True, text=True,
            env={**os.environ, "MANPATH": str(share / "man"), "MANPAGER": "cat"},
        )  # fmt: skip
        assert "pgflash-report - Report where the time went" in shown.stdout


def test_who_may_not_write_the_manual_is_told_and_gets_the_extension(
    clone: Path, pg_install: PgInstall, destdir: Path
) -> None:
    closed = destdir / "closed"
    closed.mkdir(mode=0o555)
    for folder in (pg_install.pkglibdir, pg_install.sharedir):
        make_server_dir(destdir / folder.relative_to("/"))
    words = (f"PG_CONFIG={pg_install.pg_config}", f"DESTDIR={destdir}", "PREFIX=/closed")
    done = make(clone, "install", *words, as_user=True)
    assert done.returncode == 0, done.stderr
    assert f"you may not write in {closed}/share" in done.stdout


def test_who_may_not_write_there_is_told_the_command(
    clone: Path, pg_install: PgInstall, destdir: Path
) -> None:
    for folder in (pg_install.pkglibdir, pg_install.sharedir / "extension"):
        (destdir / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
        (destdir / folder.relative_to("/")).chmod(0o555)
    words = (f"PG_CONFIG={pg_install.pg_config}", f"DESTDIR={destdir}")
    done = make(clone, "install", *words, as_user=True)
    assert done.returncode != 0
    assert f"sudo make install PG_CONFIG={pg_install.pg_config}" in done.stderr


def test_it_is_not_taken_from_a_running_server(
    clone: Path, cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cluster(install=pgflash_install, preload="pgflash")
    done = make(clone, "uninstall", f"PG_CONFIG={pgflash_install.pg_config}")
    assert done.returncode != 0
    assert "shared_preload_libraries" in done.stderr
    assert "A running server has loaded pgflash" in done.stderr
    assert (pgflash_install.pkglibdir / "pgflash.so").exists()


def test_a_folder_with_a_space_is_refused_in_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "my clone"
    folder.mkdir()
    shutil.copy(REPOSITORY / "Makefile", folder)
    done = make(folder, "demo")
    assert done.returncode != 0
    assert f'move "{folder}"' in done.stderr
    assert len(done.stderr.splitlines()) == 1
