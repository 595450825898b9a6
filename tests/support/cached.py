# SPDX-License-Identifier: PostgreSQL
"""A private server with the flash cache on, set up so that a stale block would be noticed.

Nearly every access to a block has to become a read, and nearly every read a hit that is compared
with the file.  So shared_buffers are tiny, verify is `all`, and data checksums are on.  The server
runs under the device emulator with its delays off: it presents the data folder as a disk whose
blocks are never in the operating system's page cache. (Otherwise a kernel, asked by cachestat(2),
would answer "cached" for every file that was just written.)

Each such test ends with assert_never_stale(): no hit differed from its file, enough hits were
compared for that to mean something, the cache still serves, every cached block equals its file, and
amcheck finds every heap row in every index of its tables.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgflash_lab.account import make_server_dir
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory, find_install, has_fault
from support.patience import PATIENCE_S, eventually

#: Enough for the pins of a few clients, and no more.
SHARED_BUFFERS = "1MB"
CACHE_SIZE = "64MB"

Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class CachedServer:
    """A server, its cache file, and the emulator that hides the page cache."""

    server: Server
    emulator: Emulator
    cache_file: Path
    #: A folder beside the data that the emulator presents as disk, too: for tablespaces.
    space: Path
    #: Libraries preloaded before the emulator, and the variables that they need.
    preloads: Sequence[Path] = ()
    preload_env: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start the server under the emulator; create the extension if it is missing."""
        preloads = [*map(str, self.preloads), self.emulator.env["LD_PRELOAD"]]
        self.server.start(
            {**self.emulator.env, **self.preload_env, "LD_PRELOAD": ":".join(preloads)}
        )

    def create_extension(self) -> None:
        """Create the views and functions in the database postgres."""
        with self.server.connect() as connection:
            connection.execute("create extension if not exists pgflash")

    def view(self) -> Row:
        """Return the one row of pgflash_cache."""
        with self.server.connect() as connection:
            cursor = connection.execute("select * from pgflash_cache")
            row = cursor.fetchone()
            assert row is not None
            assert cursor.description is not None
            return {
                column.name: value for column, value in zip(cursor.description, row, strict=True)
            }

    def verify(self) -> tuple[int, int]:
        """Compare every cached block with its file: (compared, mismatched)."""
        self.await_devices()
        with self.server.connect() as connection:
            row = connection.execute(
                "select compared, mismatched from pgflash_cache_verify()"
            ).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    def await_devices(self) -> None:
        """Wait until no cache file is bypassed: before that, its content cannot be compared.

        On a very busy machine, a file can be judged slower than the disk, which is memory here; it
        is used again once it answers as fast as it should.
        """
        bypassed = "select from pgflash_cache_devices where state = 'bypassed'"
        with self.server.connect() as connection:
            assert eventually(lambda: not connection.execute(bypassed).fetchall()), (
                "a cache file is not in use again"
            )

    def await_serving(self) -> None:
        """Wait until the cache serves: its worker reports this some time after the start.

        After a hit that differed from its file it would never serve.
        """

        def decided() -> bool:
            view = self.view()
            return bool(view["mode"] == "serve" or view["verify_mismatches"])

        assert eventually(decided), self.server.log_text()[-3000:]
        self.assert_serving()

    def assert_serving(self) -> Row:
        """Fail if a hit differed from its file or the cache stopped serving; return the view."""
        view = self.view()
        assert view["verify_mismatches"] == 0, f"stale blocks were served: {view}"
        assert view["mode"] == "serve", f"the cache does not serve: {view}"
        return view


def create_cached(
    cluster: ClusterFactory,
    install: PgInstall,
    *,
    settings: Mapping[str, str] | None = None,
    preloads: Sequence[Path] = (),
    preload_env: Mapping[str, str] | None = None,
    start: bool = True,
) -> CachedServer:
    """Return a new server on which every hit is verified, started unless told otherwise."""
    # With a fault even catalogs that a server finds on disk may be stale later.
    with_extension = start and not has_fault(install)
    server = cluster(install=install, start=False, with_extension=with_extension)
    cached = attach_cache(server, preloads=preloads, preload_env=preload_env)
    server.configure({"shared_preload_libraries": "pgflash", **(settings or {})})
    if start:
        cached.start()
        cached.create_extension()
        cached.await_serving()
    return cached


def attach_cache(
    server: Server,
    *,
    preloads: Sequence[Path] = (),
    preload_env: Mapping[str, str] | None = None,
) -> CachedServer:
    """Give a server that is not running yet a cache file and the emulator."""
    space = make_server_dir(server.base / "space")
    flash = make_server_dir(server.base / "flash")
    account = server.account
    emulator = Emulator.create(
        server.base / "emulator.state",
        devices=[
            EmulatedDevice(
                name="disk",
                profile=DeviceProfile.named("sas15k-raid10-6"),
                paths=(server.data, space),
            ),
            # For tests that stall it; its delays are off like the others'.
            EmulatedDevice(name="flash", profile=DeviceProfile.named("nvme"), paths=(flash,)),
        ],
        owner=account.uid if account is not None else None,
        delays_on=False,
    )
    server.configure(
        {
            "shared_buffers": SHARED_BUFFERS,
            "pgflash.cache_file": str(flash / "cache"),
            "pgflash.cache_size": CACHE_SIZE,
            "pgflash.verify": "all",
            # A busy machine must not be mistaken for a device that hangs.
            "pgflash.read_deadline": "10s",
            # Only the test may read: a snapshot reads catalogs.
            "pgflash.snapshot_interval": "0",
        }
    )
    return CachedServer(
        server=server,
        emulator=emulator,
        cache_file=flash / "cache",
        space=space,
        preloads=tuple(preloads),
        preload_env=dict(preload_env or {}),
    )


def compared_hits(view: Row) -> int:
    """Return how many hits were compared; blocks compared by verify() are not hits."""
    return int(min(view["hits"], view["verify_compared"]))


def told(cached: CachedServer, compared_min: int) -> bool:
    """Say whether enough hits were compared, or one of them was stale."""
    view = cached.view()
    return view["verify_mismatches"] > 0 or compared_hits(view) >= compared_min


def go_on_until_told(cached: CachedServer, compared_min: int, go_on: Callable[[], object]) -> bool:
    """Continue a load until enough hits were compared: a busy machine gets less done.

    Say whether that was reached.  If the cache's writer is late, it leaves blocks out, and the next
    reads of these are misses.
    """

    def told_or_go_on() -> bool:
        if told(cached, compared_min):
            return True
        go_on()
        return False

    return eventually(told_or_go_on)


def assert_never_stale(
    cached: CachedServer,
    *,
    compared_min: int,
    compared_before: int = 0,
    go_on: Callable[[], object] | None = None,
) -> Row:
    """Fail unless many hits were compared, none was stale, and no cached block is stale now.

    COMPARED_BEFORE counts hits of earlier starts, whose counters are gone.  GO_ON reads more if too
    few hits were compared.
    """
    if go_on is not None:
        go_on_until_told(cached, compared_min - compared_before, go_on)
    view = cached.assert_serving()
    compared = compared_hits(view) + compared_before
    assert compared >= compared_min, f"only {compared} hits were compared: {view}"
    assert_indexes_whole(cached.server)
    compared_now, mismatched = cached.verify()
    assert compared_now > 0
    assert mismatched == 0, f"{mismatched} of {compared_now} cached blocks are stale"
    return cached.assert_serving()


def assert_indexes_whole(server: Server, *, catalogs: bool = False) -> None:
    """Fail if amcheck finds a broken table or an index that lacks a row, in any database.

    CATALOGS take six times as long as the tables of most tests.  Nobody works in template1, which
    is left out.  A build without contrib has no amcheck; there, comparing other ways of reading
    must do.
    """
    if not has_contrib(server.install, "amcheck"):
        return
    parts = ["--all", "--exclude-database=template1"]
    if not catalogs:
        parts.append("--exclude-schema=pg_catalog")
    server.run(
        ["pg_amcheck", *parts, "--install-missing", "--heapallindexed", "--on-error-stop"],
        timeout_s=PATIENCE_S,
    )


def assert_checksums_good(server: Server) -> None:
    """Stop the server cleanly and check every block that it left on disk."""
    server.stop()
    server.run(["pg_checksums", "--check", "-D", server.data])


def has_contrib(install: PgInstall, name: str) -> bool:
    """Say whether the installation has a contrib extension."""
    return (install.sharedir / "extension" / f"{name}.control").exists()


def client_install(install: PgInstall) -> PgInstall:
    """Return the installation, or one of another major if this one has no pgbench."""
    return install if (install.bindir / "pgbench").exists() else find_install(18)


def client_program(install: PgInstall, name: str) -> Path:
    """Return a client program, of another major if this installation lacks it."""
    return client_install(install).program(name)


def run_client(
    server: Server, name: str, *arguments: str, timeout_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run a client program that this installation may lack."""
    return server.run([client_program(server.install, name), *arguments], timeout_s=timeout_s)


def process_titles(server: Server) -> list[tuple[int, str]]:
    """Return pid and title of each of the server's processes, such as "pgflash policies"."""
    titles = []
    for pid in server.child_pids():
        with suppress(OSError):  # it may be gone by now
            title = Path(f"/proc/{pid}/cmdline").read_text()
            titles.append((pid, title.removeprefix("postgres: ").strip("\0 ")))
    return titles
