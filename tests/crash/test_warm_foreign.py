# SPDX-License-Identifier: PostgreSQL
"""PostgreSQL's own programs change files while the server is down: nothing stale is served."""

import shutil

import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, attach_cache, create_cached
from support.cluster import FAST_SETTINGS, ClusterFactory, build_install, find_install
from support.script import offer_before
from support.standby import REPLICATION
from support.uring import uring_settings
from support.warm import assert_true, create_warm, read_table, start_again

#: The version to upgrade from; a distribution's build may have incompatible catalogs.
OLD_MAJOR = 16


def promote(server: Server) -> None:
    """Make a primary of a standby."""
    with server.connect() as session:
        assert session.execute("select pg_promote()").fetchone() == (True,)


def copy_of(cluster: ClusterFactory, primary: Server) -> Server:
    """Return a promoted copy of a running server, without a cache."""
    copy = cluster.adopt(
        Server(
            install=primary.install,
            base=primary.base.parent / "copy",
            settings={
                **FAST_SETTINGS,
                **uring_settings(primary.install),
                **REPLICATION,
            },
        )
    )
    primary.run(["pg_basebackup", "--pgdata", copy.data, "--checkpoint=fast", "--no-sync"])
    copy.configure({})
    (copy.data / "standby.signal").touch()
    copy.start()
    promote(copy)
    return copy


def test_after_pg_rewind_the_cache_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """It leaves a data directory that was not shut down."""
    cached = create_warm(cluster, pgflash_install, settings=REPLICATION)
    original = read_table(cached)
    copy = copy_of(cluster, cached.server)
    with copy.connect() as session:
        session.execute("checkpoint")
    # Two histories: the copy's wins.
    with cached.server.connect() as session:
        session.execute("update item set v = 1 where i % 7 = 0")
        session.execute("vacuum item")
        session.execute("checkpoint")
    read_table(cached)
    lost = read_table(cached)
    assert lost.digest != original.digest
    cached.server.stop()
    copy.stop()
    cached.server.run(
        ["pg_rewind", "--target-pgdata", cached.server.data, "--source-pgdata", copy.data]
    )
    # The configuration files are the copy's now.
    cached.server.configure({})
    (cached.server.data / "standby.signal").touch()
    assert start_again(cached).startswith("cold: the server has run without this cache")
    promote(cached.server)
    for _ in range(2):  # from disk, then from flash
        assert read_table(cached).digest == original.digest
    assert cached.view()["files_kept"] == 0
    assert_true(cached)


def upgrade(old: Server, new: Server, *, link: bool) -> None:
    """Run pg_upgrade between two servers that are down."""
    work = new.base / "upgrade"
    work.mkdir()
    shutil.chown(work, new.data.stat().st_uid, new.data.stat().st_gid)
    new.run(
        [
            "pg_upgrade",
            *("--old-bindir", old.install.bindir, "--new-bindir", new.install.bindir),
            *("--old-datadir", old.data, "--new-datadir", new.data),
            *("--username", "postgres", "--socketdir", new.socket_dir),
            *(("--link",) if link else ()),
        ],
        cwd=work,
        timeout_s=240,
    )


@pytest.mark.soak
@pytest.mark.parametrize("link", [True, False], ids=["link", "copy"])
def test_an_upgraded_cluster_s_cache_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall, link: bool
) -> None:
    if pgflash_install.major <= OLD_MAJOR:
        pytest.skip(f"this upgrades from {OLD_MAJOR}")
    old = create_warm(cluster, build_install(find_install(OLD_MAJOR), assertions=True))
    before = read_table(old)
    old.server.stop()
    # Files are linked within one file system only.
    new = attach(cluster, pgflash_install, on_disk=True)
    upgrade(old.server, new.server, link=link)
    # As after an upgrade that keeps the settings: the old cluster's cache file.
    shutil.copy2(old.cache_file, new.cache_file)
    owner = new.server.data.stat()
    shutil.chown(new.cache_file, owner.st_uid, owner.st_gid)
    reason = start_again(new)
    assert reason.startswith("cold: the cache is another cluster's")
    assert read_table(new).digest == before.digest
    assert_true(new)


@pytest.mark.extension
def test_an_upgrade_to_another_major_keeps_policies_and_snapshots(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The old cluster has the extension's SQL of 0.1, which is updated afterwards."""
    if pgflash_install.major <= OLD_MAJOR:
        pytest.skip(f"this upgrades from {OLD_MAJOR}")
    old = create_cached(cluster, build_install(find_install(OLD_MAJOR), assertions=True))
    offer_before(old.server.install)
    offer_before(pgflash_install)
    with old.server.connect() as session:
        session.execute("drop extension pgflash")
        session.execute("create extension pgflash version '0.1'")
        session.execute("create table item (i int)")
        session.execute("insert into item select generate_series(1, 1000)")
        session.execute("select pgflash_set_cache_policy('item', 'keep')")
        session.execute(
            "insert into pgflash_snapshots (taken_at, started_at, took_ms, origin, "
            "server_version_num, extension_version) values (now(), now(), 1, 'command', 1, '0.1')"
        )
        kept = session.execute("select * from pgflash_snapshots").fetchall()
    old.server.stop()
    new = attach(cluster, pgflash_install, on_disk=True)
    upgrade(old.server, new.server, link=False)
    new.start()
    with new.server.connect() as session:
        session.execute("alter extension pgflash update")
        assert session.execute("select * from pgflash_snapshots").fetchall() == kept
        assert session.execute("select relation, policy from pgflash_cache_policy").fetchall() == [
            ("item", "keep")
        ]
        assert session.execute("select pgflash_snapshot()").fetchone() == (2,)
        assert session.execute("select count(*), sum(i) from item").fetchone() == (1000, 500500)
    assert_true(new)


def attach(cluster: ClusterFactory, install: PgInstall, *, on_disk: bool = False) -> CachedServer:
    """Return an empty cluster that is down and has never used its cache."""
    server = cluster(install=install, start=False, on_disk=on_disk)
    cached = attach_cache(server)
    server.configure({"shared_preload_libraries": "pgflash"})
    return cached
