# SPDX-License-Identifier: PostgreSQL
"""Copies of installations and data folders."""

from pathlib import Path

import pytest

from pgflash.errors import PgflashError
from pgflash_lab.postgres import copy_files


def test_a_copy_that_fails_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    missing = (tmp_path / "a", tmp_path / "b")
    with pytest.raises(PgflashError, match=f"could not copy files: .*{tmp_path}/a") as caught:
        copy_files(*missing, tmp_path / "data")
    assert len(caught.value.message.splitlines()) == 1
