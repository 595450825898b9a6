# SPDX-License-Identifier: PostgreSQL
"""A library in the server writes into data files by its own calls, past PostgreSQL.

Who: somebody who may load a library, a superuser or an extension he trusts.  What they prepare:
a table that is in the cache, and a library (writer.c) that opens the table's file itself and
writes over it: by a call, by a pointer in a table, by a library that it needs, in a
constructor, in a mapping.  What must not happen: a block is served that the file no longer has.
"""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.prey import make_prey

pytestmark = pytest.mark.extension

Installs = Callable[[str], PgInstall]

#: The ways that are followed block by block, and those that only take the cache offline.
FOLLOWED = ("call", "table", "address", "position", "cut", "empty", "needed")
NOT_FOLLOWED = ("stream", "map", "rename")

WRITER = Path(__file__).with_name("writer.c")


def build_library(install: PgInstall, folder: Path, name: str, *options: str) -> Path:
    """Build writer.c into a library in this folder, readable for the server's user."""
    path = folder / f"{name}.so"
    subprocess.run(
        [
            *("gcc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{install.includedir_server}"),
            *("-o", str(path), str(WRITER), f"-L{folder}", "-Wl,-rpath,$ORIGIN", *options),
        ],
        check=True,
    )
    path.chmod(0o755)
    return path


def build_writer(cached: CachedServer) -> Path:
    """Build the extension and what it needs."""
    install, folder = cached.server.install, cached.server.base
    build_library(install, folder, "libneeded", "-DNEEDED")
    return build_library(install, folder, "writer", "-lneeded")


def write_over(cached: CachedServer, writer: Path, way: str, prey: Path) -> None:
    """Let the extension write over a file, in a new session."""
    with cached.server.connect() as session:
        session.execute(
            "create or replace function write_by(text, text) returns void"
            f" language c strict as '{writer.with_suffix('')}'"
        )
        session.execute("select write_by(%s, %s)", (way, str(prey)))


def assert_nothing_stale(cached: CachedServer, how: str) -> None:
    compared, mismatched = cached.verify()
    assert mismatched == 0, f"{mismatched} of {compared} cached blocks are stale: {how}"


def write_in_ways(cached: CachedServer, ways: Sequence[str], name: str = "prey") -> None:
    """Write over tables in these ways, and look for stale blocks after each."""
    writer = build_writer(cached)
    for way in ways:
        prey = make_prey(cached, f"{name}_{way}")
        before = prey.read_bytes()
        write_over(cached, writer, way, prey)
        assert prey.read_bytes() != before
        assert_nothing_stale(cached, way)


def preload(cached: CachedServer, setting: str, value: str) -> None:
    """Restart the server with other libraries preloaded."""
    cached.server.stop()
    cached.server.configure({setting: value, "log_min_messages": "debug1"})
    cached.start()
    cached.await_serving()


def write_in_constructors(cached: CachedServer) -> None:
    """Write over a table while a library is being loaded, or one that it needs."""
    install, folder = cached.server.install, cached.server.base
    build_library(install, folder, "libearly", "-DEARLY")
    needing = build_library(install, folder, "needing", "-DEARLY", "-Wl,--no-as-needed", "-learly")
    marker = cached.server.data / "prey"
    for library in (folder / "libearly.so", needing):
        prey = make_prey(cached, library.stem)
        before = prey.read_bytes()
        marker.write_text(str(prey))
        marker.chmod(0o644)
        with cached.server.connect() as session:
            session.execute(f"load '{library}'")
        assert not marker.exists()
        assert prey.read_bytes() != before
        assert_nothing_stale(cached, f"by a constructor of {library.name}")


def test_what_a_loaded_library_writes_leaves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """An extension writes over a cached table by its own calls: no block is served from before."""
    cached = create_cached(cluster, pgflash_install)
    write_in_ways(cached, FOLLOWED)
    cached.assert_serving()


def test_what_a_constructor_writes_leaves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A library overwrites a cached table while it is being loaded, before PostgreSQL knows it."""
    cached = create_cached(cluster, pgflash_install)
    write_in_constructors(cached)
    cached.assert_serving()


@pytest.mark.parametrize("way", NOT_FOLLOWED)
def test_what_cannot_be_followed_takes_the_cache_offline(
    cluster: ClusterFactory, pgflash_install: PgInstall, way: str
) -> None:
    """An extension maps a data file, or opens it as a stream: nothing can intercept its writes."""
    cached = create_cached(cluster, pgflash_install)
    writer = build_writer(cached)
    write_over(cached, writer, way, make_prey(cached, "prey"))
    assert cached.view()["mode"] == "offline"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("shared_preload_libraries", "{writer},pgflash"),
        ("shared_preload_libraries", "pgflash,{writer}"),
        ("session_preload_libraries", "{writer}"),
    ],
    ids=["before pgflash", "after pgflash", "with the session"],
)
def test_a_preloaded_library_is_seen(
    cluster: ClusterFactory, pgflash_install: PgInstall, setting: str, value: str
) -> None:
    """The library is loaded before pgflash, after it, or by a session."""
    cached = create_cached(cluster, pgflash_install)
    preload(cached, setting, value.format(writer=build_writer(cached)))
    write_in_ways(cached, ("call", "needed"))
    cached.assert_serving()
    log = cached.server.log_text()
    for library in ("writer.so", "libneeded.so"):
        assert f'imports of library "{library}" are watched' in log


@pytest.mark.parametrize("fault", ["LIBRARIES", "LOADED"])
def test_control_libraries_that_are_not_watched_are_caught(
    cluster: ClusterFactory, broken_install: Installs, fault: str
) -> None:
    """The same attack on a build that intercepts no library, or none that is loaded later."""
    cached = create_cached(cluster, broken_install(fault))
    with pytest.raises(AssertionError, match="stale"):
        write_in_ways(cached, ("call",))


def test_control_constructors_that_come_first_are_caught(
    cluster: ClusterFactory, broken_install: Installs
) -> None:
    """The same attack on a build that looks only after everything has been loaded."""
    cached = create_cached(cluster, broken_install("CONSTRUCTORS"))
    write_in_ways(cached, ("call",))
    with pytest.raises(AssertionError, match="stale"):
        write_in_constructors(cached)
