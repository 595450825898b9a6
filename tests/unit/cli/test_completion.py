# SPDX-License-Identifier: PostgreSQL
"""TAB in a real shell: it completes what the parser knows, without starting Python."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pgflash.cli import command
from pgflash.cli.completion import script
from support.commands import commands_of, output
from support.terminal import Terminal, terminal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file and a folder in it, and with scripts."""
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / f"script.{shell}").write_text(script(shell, command))
    (tmp_path / "kept report.json").touch()
    (tmp_path / "flash").mkdir()
    return tmp_path


#: It says what it was called with.
STAND_IN = "pgflash() { printf '<%s>\\n' \"$*\"; }"


@pytest.fixture
def bash(folder: Path) -> Iterator[Terminal]:
    """A shell that finds no other pgflash: all its completions come from the script."""
    words = ("bash", "--norc", "--noprofile", "-i")
    with terminal(words, columns=200, environment={"PATH": "/usr/bin:/bin"}) as shell:
        shell.type(f"{STAND_IN}; cd '{folder}' && source script.bash; echo do''ne\n")
        shell.until("done\n")
        yield shell


def line(shell: Terminal, typed: str) -> str:
    """Type a line with a TAB at its end, and return the command that then runs."""
    shell.written.clear()
    shell.type(f"{typed}\t\n")
    return shell.until(">\n").split("<")[-1].split(">")[0].rstrip()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("pgflash rep", "report"),
        ("pgflash place arc", "place archive"),
        ("pgflash doctor --fail", "doctor --fail-on"),
        ("pgflash doctor --fail-on crit", "doctor --fail-on critical"),
        ("pgflash doctor --fail-on=crit", "doctor --fail-on=critical"),
        ("pgflash cache mode pass", "cache mode passthrough"),
        # A value is not a command, and an option in between does not hide what follows.
        ("pgflash cache -d mode res", "cache -d mode resize"),
        ("pgflash report -o kep", "report -o kept report.json"),
        ("pgflash advise --flash fl", "advise --flash flash/"),
        ("pgflash completion z", "completion zsh"),
        ("pgflash nonsense", "nonsense"),
    ],
)
def test_bash_completes_commands_options_and_values(
    bash: Terminal, typed: str, completed: str
) -> None:
    assert line(bash, typed) == completed


def test_two_tabs_list_what_may_follow(bash: Terminal) -> None:
    bash.written.clear()
    bash.type("pgflash cache \t\t")
    listed = bash.until("resize").splitlines()
    assert ["clear", "mode", "resize"] in [one.split() for one in listed]


def offered(path: str) -> tuple[set[str], set[str]]:
    """Return the commands and long options that a script offers after a command."""
    text = script("bash", command)

    def words(table: str) -> set[str]:
        (rows,) = re.findall(rf"_pgflash_{table}=\((.*?)\n\)", text, re.S)
        (found,) = re.findall(rf"^\t\['?{path}'?\]='?([^'\n]*)", rows, re.M)
        return set(found.split())

    return words("follows"), words("options")


def test_all_that_the_parser_declares_is_offered() -> None:
    def check(path: str, one: click.Command) -> int:
        follows, options = offered(path)
        names = {
            name
            for parameter in one.params
            if isinstance(parameter, click.Option)
            for name in (*parameter.opts, *parameter.secondary_opts)
            if name.startswith("--")
        }
        assert options == {*names, "--help"}
        below = commands_of(one) if isinstance(one, click.Group) else {}
        assert not below or follows == set(below)
        return 1 + sum(check(f"{path} {name}", found) for name, found in below.items())

    assert check("pgflash", command) > 30


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert output(capsys, "completion", shell) == script(shell, command)


def test_bash_completion_loads_it_within_a_function(folder: Path) -> None:
    load = f"load() {{ source '{folder}/script.bash'; }}; load; COMP_WORDS=(pgflash rep); "
    ask = "COMP_CWORD=1; _pgflash; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-eu", "-c", load + ask], capture_output=True, text=True)
    assert done.stdout == "report\n"


FISH = shutil.which("fish")


@pytest.mark.skipif(FISH is None, reason="there is no fish: apt-get install fish")
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("pgflash rep", ["report"]),
        ("pgflash cache ", ["clear", "mode", "resize"]),
        ("pgflash doctor --fail-on ", ["critical", "note", "warning"]),
        ("pgflash cache mode p", ["passthrough"]),
        ("pgflash advise --flash f", ["flash/"]),
    ],
)
def test_fish_completes_the_same(folder: Path, typed: str, words: list[str]) -> None:
    ask = f"source script.fish; complete -C '{typed}'"
    done = subprocess.run([str(FISH), "--no-config", "-c", ask], cwd=folder, capture_output=True)
    found = [one.split("\t")[0] for one in done.stdout.decode().splitlines()]
    assert sorted(found) == words


ZSH = shutil.which("zsh")


@pytest.mark.skipif(ZSH is None, reason="there is no zsh: apt-get install zsh")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("pgflash rep", "report"),
        ("pgflash doctor --fail-on=crit", "doctor --fail-on=critical"),
        ("pgflash cache -d mode res", "cache -d mode resize"),
        ("pgflash advise --flash fl", "advise --flash flash"),  # zsh takes the slash away
    ],
)
def test_zsh_completes_the_same(folder: Path, typed: str, completed: str) -> None:
    with terminal((str(ZSH), "-f", "-i"), columns=200) as shell:
        shell.type(f"{STAND_IN}; cd '{folder}'; autoload -U compinit; compinit -u -D\n")
        shell.type("source script.zsh; echo do''ne\n")
        shell.until("done\n")
        assert line(shell, typed) == completed
