# SPDX-License-Identifier: PostgreSQL
"""The purge of a Debian package: root deletes cache files, and nothing else.

The cache's folder belongs to the server's user, who may have put links there.  It may also be a
mounted drive to which somebody moved the WAL or a tablespace, without which the cluster is lost.
The script is debian/extension.postrm.in; it finds its folder elsewhere here.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import REPOSITORY
from support.hostile import Victim, the_attacker

MAJOR = "17"
SCRIPT = REPOSITORY / "debian" / "extension.postrm.in"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Stand in for /var/cache/pgflash."""
    the_attacker()
    base = Path(tempfile.mkdtemp(prefix="pgflash-purge-", dir="/var/tmp"))
    base.chmod(0o755)
    (base / "pgflash").mkdir()
    yield base / "pgflash"
    shutil.rmtree(base)


@pytest.fixture
def cache(folder: Path) -> Path:
    """The folder of a major version, with a cache file in it and one below."""
    cache = folder / MAJOR
    (cache / "folder").mkdir(parents=True)
    (cache / "main").touch()
    (cache / "folder" / "main").touch()
    return cache


def purge(folder: Path) -> str:
    """Give all that is there to the server's user, and run the script; return what it says."""
    owner = the_attacker()
    for path in (folder / MAJOR).rglob("*"):
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
    os.chown(folder / MAJOR, owner.uid, owner.gid)
    script = SCRIPT.read_text().replace("@PGVERSION@", MAJOR)
    assert "/var/cache/pgflash" in script
    done = subprocess.run(
        ("sh", "-c", script.replace("/var/cache/pgflash", str(folder)), "postrm", "purge"),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def test_cache_files_are_deleted_and_a_link_is_not_followed(folder: Path, cache: Path) -> None:
    victim = Victim()
    (cache / "link").symlink_to(victim.folder)
    assert purge(folder) == ""
    assert not folder.exists()
    victim.assert_untouched()
    victim.remove()


@pytest.mark.parametrize(
    "name",
    [
        "tables/PG_17_202406281/5/16384",
        "wal/00000001000000A900000042",
        "wal/archive_status/.keep",
        "archive/00000001000000A900000042.zst",
        "data/PG_VERSION",
    ],
)
def test_a_folder_to_which_somebody_moved_files_of_a_cluster_is_kept_as_it_is(
    folder: Path, cache: Path, name: str
) -> None:
    (cache / name).parent.mkdir(parents=True)
    (cache / name).write_text("the only copy")
    before = sorted(cache.rglob("*"))
    assert str(cache) in purge(folder)
    assert sorted(cache.rglob("*")) == before
    assert (cache / name).read_text() == "the only copy"
