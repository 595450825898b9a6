# SPDX-License-Identifier: PostgreSQL
"""Whose loaded database a run uses; tests/cluster/lab makes real ones."""

import os
from pathlib import Path

import pytest

from pgflash_lab import loaded
from pgflash_lab.account import server_account
from pgflash_lab.store import StoreError

KEY = "oltp-18.6-2-x-0"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a folder with a kept database."""
    folder = tmp_path / KEY
    folder.mkdir()
    (folder / "manifest.json").write_text('{"database_bytes": 7}')
    return tmp_path


def test_a_database_of_ours_is_found(cache: Path) -> None:
    assert loaded.find_loaded(cache, "other") is None
    found = loaded.find_loaded(cache, KEY)
    assert found == loaded.LoadedDatabase(path=cache / KEY / "cluster", database_bytes=7)


def test_that_of_another_user_is_refused(cache: Path) -> None:
    """Its settings name libraries and commands that a server would run as us."""
    account = server_account()
    if account is None:
        pytest.skip("only root can act for two users; run the tests as root")
    os.chown(cache / KEY, account.uid, account.gid)
    with pytest.raises(StoreError, match="is not a folder of yours"):
        loaded.find_loaded(cache, KEY)


def test_a_link_to_one_is_refused(cache: Path) -> None:
    (cache / "link").symlink_to(cache / KEY)
    with pytest.raises(StoreError, match="is not a folder of yours"):
        loaded.find_loaded(cache, "link")


def test_the_lock_follows_no_link(cache: Path) -> None:
    precious = cache / "precious"
    precious.write_text("ours")
    (cache / f"{KEY}.lock").symlink_to(precious)
    with pytest.raises(StoreError, match="could not open"), loaded._lock(cache, KEY):
        pass
    assert precious.read_text() == "ours"
