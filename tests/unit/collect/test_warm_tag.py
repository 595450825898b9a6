# SPDX-License-Identifier: PostgreSQL
"""The file of the tag: Patroni can read it, and nobody else's file is written."""

from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from pgflash.collect.warm_tag import TAG, TagError, read_tag, write_tag


@pytest.mark.parametrize("is_warm", [True, False])
def test_the_file_is_what_patroni_reads_as_a_tag(tmp_path: Path, is_warm: bool) -> None:
    path = tmp_path / "90-pgflash.yml"
    write_tag(path, is_warm=is_warm)
    assert yaml.safe_load(path.read_text()) == {"tags": {TAG: is_warm}}
    assert read_tag(path) is is_warm
    assert list(tmp_path.iterdir()) == [path]


def test_without_the_file_there_is_no_tag(tmp_path: Path) -> None:
    assert read_tag(tmp_path / "90-pgflash.yml") is None


@pytest.mark.parametrize("text", ["", "tags: {nofailover: true}\n", "scope: main\n"])
def test_a_file_with_something_else_in_it_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "10-patroni.yml"
    path.write_text(text)
    with pytest.raises(TagError, match="was not written by pgflash fleet tag"):
        read_tag(path)
    assert path.read_text() == text


def test_a_name_that_patroni_does_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TagError, match="Patroni reads no file"):
        read_tag(tmp_path / "pgflash.conf")


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(TagError, match="every user may write"):
        write_tag(folder / "90-pgflash.yml", is_warm=True)
    assert list(folder.iterdir()) == []


def test_a_link_to_something_else_is_not_followed_to_be_written(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "90-pgflash.yml"
    other.write_text("mine\n")
    path.symlink_to(other)
    with pytest.raises(TagError, match="was not written by pgflash fleet tag"):
        read_tag(path)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TagError, match="could not write"):
        write_tag(tmp_path / "no" / "90-pgflash.yml", is_warm=True)
