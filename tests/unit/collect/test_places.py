# SPDX-License-Identifier: PostgreSQL
"""Where a cluster keeps its parts: the paths in commands and lists of settings."""

from pathlib import Path

import pytest

from pgflash.collect.places import archive_places, cache_places, split_list


def archive(**settings: str) -> list[tuple[str, str]]:
    return [(place.path, place.why) for place in archive_places(settings)]


@pytest.mark.parametrize(
    ("command", "folders"),
    [
        ("cp %p /archive/%f", ["/archive"]),
        ("test ! -f /mnt/a/%f && cp %p /mnt/a/%f", ["/mnt/a"]),
        ("cp %p '/with blank/%f' && cp %p /two/%f", ["/with blank", "/two"]),
        ("cp %p /%f", ["/"]),
        ("cp %p \"/a/%f", []),  # a quote that is not closed: words by their blanks
    ],
)  # fmt: skip
def test_a_command_that_copies_names_its_folders(command: str, folders: list[str]) -> None:
    found = archive(archive_mode="on", archive_command=command)
    assert [path for path, _why in found if path] == folders


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("pgbackrest --stanza=main archive-push %p", "pgbackrest"),
        ("/usr/bin/wal-g wal-push %p", "wal-g"),
        ("rsync -a %p backup@host:/archive/%f", "rsync"),
        ("gzip < %p > relative/%f", "gzip"),
    ],
)
def test_a_tool_that_keeps_it_to_itself_is_named(command: str, tool: str) -> None:
    ((path, why),) = archive(archive_mode="always", archive_command=command)
    assert path == ""
    assert f'"{tool}"' in why


def test_without_archiving_there_is_no_archive() -> None:
    assert archive(archive_mode="off", archive_command="cp %p /a/%f") == []
    assert archive() == []


def test_a_library_that_archives_is_asked_for_its_folder() -> None:
    basic = {"archive_mode": "on", "archive_library": "basic_archive"}
    folder = {"basic_archive.archive_directory": "/archive"}
    assert archive(**basic, **folder) == [("/archive", "")]
    assert archive(**basic) == [("", "basic_archive.archive_directory is not set")]
    assert "is odd" in archive(archive_mode="on", archive_library="odd")[0][1]


def test_a_cache_file_that_is_missing_is_asked_for_by_its_folder(tmp_path: Path) -> None:
    there = tmp_path / "with, comma"
    there.touch()
    found = [place.path for place in cache_places(f'"{there}", {tmp_path}/gone')]
    assert found == [str(there), str(tmp_path)]
    assert list(cache_places("")) == []


def test_a_cache_file_that_may_not_be_looked_at_is_asked_for_by_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert [place.path for place in cache_places("/hidden/cache")] == ["/hidden"]


def test_lists_of_settings_are_split_as_the_server_does() -> None:
    assert split_list('a, "b, c" ,d') == ("a", "b, c", "d")
    assert split_list("") == ()
