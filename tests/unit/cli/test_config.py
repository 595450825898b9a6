# SPDX-License-Identifier: PostgreSQL
"""The user's file of defaults: its contents, its owner, and what overrides it."""

import json
import os
from pathlib import Path

import pytest

from pgflash.cli import main
from pgflash.cli.config import Config, path_of_config, read_config
from pgflash.trusted import config_folder
from support.commands import failure, output

TEXT = """
[connection]
host = "db1.example.org"
port = 6432
dbname = "app"

[output]
format = "json"
pager = false
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a file that does not exist yet; and nothing names a server."""
    path = tmp_path / "pgflash.toml"
    monkeypatch.setenv("PGFLASH_CONFIG", str(path))
    for name in [name for name in os.environ if name.startswith("PG") and name != "PGFLASH_CONFIG"]:
        monkeypatch.delenv(name)
    return path


def write(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o600)


def test_all_that_it_may_say_is_read(file: Path) -> None:
    write(file, TEXT)
    assert read_config() == Config(
        connection={"PGHOST": "db1.example.org", "PGPORT": "6432", "PGDATABASE": "app"},
        format="json",
        pager=False,
    )


def test_without_a_file_there_are_no_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGFLASH_CONFIG", "")
    assert path_of_config() is None
    assert read_config() == Config()


def test_its_place_is_that_of_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGFLASH_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert path_of_config() == tmp_path / "pgflash.toml"
    assert read_config() == Config()
    write(tmp_path / "pgflash.toml", TEXT)
    assert read_config().format == "json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))  # sudo may leave that of another user
    assert path_of_config() == config_folder() / "pgflash.toml"
    assert config_folder() != tmp_path / ".config"


def server_that_was_asked(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the command's message about a server that is not there."""
    told: str = json.loads(output(capsys, "version", *words))["why_no_server"]
    return told


def test_the_file_counts_less_than_the_environment_and_that_less_than_an_option(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, '[connection]\nhost = "/of/file"\nport = 11\n[output]\nformat = "json"\n')
    assert "/of/file/.s.PGSQL.11" in server_that_was_asked(capsys)
    monkeypatch.setenv("PGHOST", "/of/environment")
    assert "/of/environment/.s.PGSQL.11" in server_that_was_asked(capsys)
    assert "/of/option/.s.PGSQL.11" in server_that_was_asked(capsys, "-h", "/of/option")
    assert "/of/dsn/.s.PGSQL.12" in server_that_was_asked(capsys, "-d", "host=/of/dsn port=12")
    # It was in force for the command, and no longer is.
    assert "PGPORT" not in os.environ
    assert output(capsys, "version", "--format", "text").startswith("command: ")


def test_a_form_that_a_command_does_not_have_is_left_to_others(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(file, '[output]\nformat = "csv"\n')
    assert output(capsys, "version", "-h", "/nowhere").startswith("command: ")
    assert output(capsys, "lab", "list").startswith("scenario,")


WRONG = [
    ("[conection]\n", '"conection" is not a part of it; did you mean connection?'),
    ('[connection]\nhosts = "x"\n', '"hosts" is not a setting of [connection]; did you mean host?'),
    ('[connection]\npassword = "x"\n', "~/.pgpass is the place"),
    ("[connection]\nport = 5432.5\n", "port is 5432.5: write it in quotes"),
    ("[connection]\nport = true\n", "port is True"),
    ('[output]\nformat = "xml"\n', "one of table, json, csv"),
    ('[output]\npager = "less"\n', "it is true or false"),
    ("[output]\ncolour = 1\n", '"colour" is not a setting of [output]; there are format, pager'),
    ("output = 1\n", "write [output] on a line of its own"),
    ("[connection\n", "at line 1"),
    ("[output]\n\xff = 1\n", ""),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text[:24] for text, _said in WRONG])
def test_what_means_nothing_is_refused_and_named(
    file: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file.write_bytes(text.encode("latin-1"))
    file.chmod(0o600)
    said = failure(capsys, 2, "lab", "list")
    assert said.startswith(f'pgflash: "{file}" is wrong: ')
    assert message in said
    assert "HINT: Correct the file" in said


@pytest.mark.parametrize("mode", [0o666, 0o622])
def test_a_file_that_others_may_write_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    write(file, TEXT)
    file.chmod(mode)
    said = failure(capsys, 2, "lab", "list")
    assert f"every user may write to {file}" in said
    assert "chmod go-w" in said


def test_a_folder_that_others_may_write_is_as_bad(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(file, TEXT)
    file.parent.chmod(0o777)
    assert "every user may write to" in failure(capsys, 2, "lab", "list")


def test_a_file_that_was_named_has_to_be_there(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no file" in failure(capsys, 2, "lab", "list")


def test_help_can_be_had_whatever_the_file_says(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(file, "[nonsense")
    for words in (("--help",), ("report", "--help"), ("--version",)):
        assert main(list(words)) == 0
    assert "Report where the time went" in capsys.readouterr().out
