# SPDX-License-Identifier: PostgreSQL
"""pgflash without the lab, and then with it, as a user installs them: from wheels."""

import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from support.cluster import REPOSITORY

MIB = 2**20


def built(folder: Path, out: Path, kind: str) -> Path:
    """Build the wheel or the sdist of a folder, without a network."""
    build = (sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out))
    subprocess.run(build, cwd=folder, check=True, capture_output=True, text=True)
    (file,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


def wheel_of(folder: Path, out: Path) -> Path:
    """Build the wheel of a folder."""
    return built(folder, out, "wheel")


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist()}


def needed_by(name: str, extras: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the distributions that one declares as dependencies, and those that these need."""
    from packaging.requirements import Requirement

    for text in distribution(name).requires or ():
        one = Requirement(text)
        applies = [one.marker.evaluate({"extra": e}) for e in ("", *extras)] if one.marker else [1]
        if any(applies):
            yield one.name
            yield from needed_by(one.name, frozenset(one.extras))


class Installed:
    """A separate environment."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.program = folder / "bin" / "pgflash"
        self._python = folder / "bin" / "python"
        (self.packages,) = (folder / "lib").glob("python*/site-packages")

    def add(self, wheel: Path, needed: set[str]) -> None:
        """Install a wheel, and its dependencies from our own environment."""
        for name in needed:
            for file in distribution(name).files or ():
                if not file.is_absolute() and ".." not in file.parts:
                    to = self.packages / file
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(Path(str(file.locate())), to)
        pip = (sys.executable, "-m", "pip", "--python", str(self._python), "install", "--no-deps")
        done = subprocess.run(
            (*pip, "--no-index", "--no-compile", str(wheel)), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Call the command, knowing nothing of our own environment, nor of runs of `make demo`."""
        return subprocess.run(
            (self.program, *words),
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin"},
            cwd=self.program.parent,
        )


def size_of(folder: Path) -> int:
    """Return the bytes of a folder's files, except for Python's compiled ones."""
    files = (one for one in folder.rglob("*") if "__pycache__" not in one.parts)
    return sum(one.stat().st_size for one in files if one.is_file())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of pgflash."""
    return wheel_of(REPOSITORY, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    """Nothing but pgflash, and what it needs."""
    one = Installed(tmp_path_factory.mktemp("alone"))
    one.add(wheel, set(needed_by("pgflash")))
    return one


@pytest.mark.parametrize("words", [("--help",), ("report", "--help"), ("advise", "--help")])
def test_pgflash_alone_tells_its_commands(alone: Installed, words: tuple[str, ...]) -> None:
    done = alone.run(*words)
    assert done.returncode == 0, done.stderr
    assert "Usage: pgflash" in done.stdout
    assert not re.search(r"^  lab\b", done.stdout, re.M)


@pytest.mark.parametrize("words", [("lab",), ("lab", "run", "all"), ("cost",)])
def test_pgflash_alone_says_how_to_install_the_lab(
    alone: Installed, words: tuple[str, ...]
) -> None:
    done = alone.run(*words)
    assert done.returncode == 1
    assert done.stdout == ""
    said = f"pgflash {words[0]} is a command of the lab, which is not installed"
    assert said in done.stderr
    assert "pip install ./lab" in done.stderr


def test_pgflash_alone_is_as_small_as_the_readme_says(alone: Installed) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    said = re.search(r"takes (\d+) MB, or (\d+) MB with everything", readme)
    assert said is not None
    own, whole = size_of(alone.packages / "pgflash") / MIB, size_of(alone.packages) / MIB
    assert own <= int(said[1]) < own + 1
    assert whole <= int(said[2]) < 1.25 * whole  # other versions may differ a little
    assert not (alone.packages / "pgflash_lab").exists()


@pytest.mark.parametrize("folder", [REPOSITORY, REPOSITORY / "lab"], ids=["pgflash", "lab"])
def test_a_source_distribution_makes_the_same_wheel_anywhere(folder: Path, tmp_path: Path) -> None:
    """The lab's version is that of the folder beside it, which its sdist has not."""
    archive = built(folder, tmp_path, "sdist")
    subprocess.run(("tar", "-xf", archive, "-C", tmp_path), check=True)
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    from_source = wheel_of(source, tmp_path / "from-source")
    in_place = wheel_of(folder, tmp_path / "in-place")
    assert from_source.name == in_place.name
    assert contents(from_source) == contents(in_place)


def test_the_lab_adds_its_commands(wheel: Path, tmp_path: Path) -> None:
    both = Installed(tmp_path / "venv")
    both.add(wheel, set(needed_by("pgflash")))
    both.add(wheel_of(REPOSITORY / "lab", tmp_path), set())  # its servers are not needed here
    assert re.search(r"^  lab\b", both.run("--help").stdout, re.M)
    listed = both.run("lab", "list")
    assert "oltp-approaches" in listed.stdout, listed.stderr
    assert "there is no finished run" in both.run("lab", "predict", "--papers").stderr
