# SPDX-License-Identifier: PostgreSQL
"""pgflash serve: what it takes from the folder that it was started in."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgflash.cli.serve import serve_command


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path | None]:
    """Return the folders that would be served, of a command in a folder of ours."""
    found: list[Path | None] = []
    monkeypatch.setattr("pgflash.web.serve.serve", lambda *_, store, **__: found.append(store))
    monkeypatch.setenv("PGFLASH_TOKEN", "0123456789abcdef-token")
    monkeypatch.chdir(tmp_path)
    return found


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(("mode", "others"), [(0o755, False), (0o777, True), (0o1777, True)])
def test_a_folder_that_others_fill_is_shown_only_if_it_was_named(
    tmp_path: Path, shown: list[Path | None], mode: int, others: bool, is_there: bool
) -> None:
    """In a sticky folder nobody else can replace ours, but others can make it first."""
    if is_there:
        Path("out").mkdir()
    tmp_path.chmod(mode)
    said = CliRunner().invoke(serve_command, [])
    assert said.exit_code == 0, said.output
    hidden = others and not (is_there and mode == 0o1777)
    assert shown == [None if hidden else Path("out")]
    assert ("every user may write to" in said.output) == hidden
    assert CliRunner().invoke(serve_command, ["--store", "out"]).exit_code == 0
    assert shown[1] == Path("out")


def test_a_link_of_somebody_else_s_making_is_not_followed(
    tmp_path: Path, shown: list[Path | None]
) -> None:
    (tmp_path / "aim").mkdir()
    (tmp_path / "aim").chmod(0o777)
    Path("out").symlink_to("aim")
    assert CliRunner().invoke(serve_command, []).exit_code == 0
    assert shown == [None]
