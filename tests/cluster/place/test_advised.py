# SPDX-License-Identifier: PostgreSQL
"""From "the database waits for storage" to "this is on flash now, and this is what it brought".

What a DBA does, command by command: measure, ask for advice, carry the plan out while the
database is used, measure, and undo it.  The devices are emulated: the data is on slow disks, and
the advised tablespace and the WAL's new folder are on flash.
"""

import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pgflash.cli import main
from pgflash.model.plan import MoveKind
from pgflash.place import cluster
from pgflash.place.journal import read_plan
from pgflash_lab.account import make_server_dir
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator, emulator_folder
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import assert_indexes_whole, client_program
from support.cluster import ClusterFactory, elsewhere
from support.patience import PATIENCE_S, eventually
from support.placed import PlacedServer, StallWatch, placed_server
from support.tpcb import end_load

pytestmark = pytest.mark.skipif(
    not (emulator_folder() / "build" / "libpgflash_emulator.so").exists(),
    reason="the emulator is not built",
)

ROWS = 20_000
TABLES = f"""
create table stock (id int primary key, quantity int, pad text);
insert into stock select n, 0, repeat('x', 900) from generate_series(1, {ROWS}) n;
create table seldom (id int primary key, pad text);
insert into seldom select n, repeat('y', 900) from generate_series(1, 1000) n;
vacuum analyze stock, seldom;
checkpoint;
"""
#: An order looks four articles up, and takes one of them.
ORDER = f"""
\\set one random(1, {ROWS})
select count(pad) from generate_series(1, 4) g,
    lateral (select pad from stock where id = 1 + (:one * g * 797) % {ROWS} offset 0) row;
update stock set quantity = quantity + 1 where id = :one;
"""
CLIENTS = 8
MEASURED_S = 2
#: The least gain of the move; the model predicts several times that.
GAIN_MIN = 2.0


class Devices:
    """The emulated devices of the server."""

    emulator: Emulator

    def __init__(self, flash: Path) -> None:
        self.flash = flash

    def env(self, server: Server) -> Mapping[str, str]:
        """Make the devices, and return how a server is started on them."""
        account = server.account
        self.emulator = Emulator.create(
            server.base / "emulator.state",
            devices=[
                EmulatedDevice(
                    name="disks",
                    profile=DeviceProfile.named("sas15k-raid10-6"),
                    paths=(server.data,),
                ),
                EmulatedDevice(
                    name="flash", profile=DeviceProfile.named("nvme"), paths=(self.flash,)
                ),
            ],
            owner=account.uid if account is not None else None,
            delays_on=False,
        )
        return self.emulator.env


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Devices]:
    # The emulated flash may be in memory, which is refused otherwise.
    monkeypatch.setattr(cluster, "ephemeral_at", lambda _folder: "")
    with elsewhere(Path(tempfile.gettempdir())) as flash:
        yield Devices(flash)


@pytest.fixture
def placed(pgflash_install: PgInstall, devices: Devices) -> Iterator[PlacedServer]:
    """A server with a table much larger than its memory, on slow disks."""
    factory = ClusterFactory(pgflash_install)
    settings = {
        "shared_preload_libraries": "pgflash",
        "pgflash.snapshot_interval": "0",
        # Without a miss-ratio curve a cache is only as good as its size; so objects are moved.
        "pgflash.advice": "off",
        "shared_buffers": "4MB",
        "max_wal_size": "64MB",
        "fsync": "on",
    }
    # The kernel knows no emulated devices: real data and flash must be on two devices for it, too.
    with placed_server(factory, env=devices.env, on_disk=True, settings=settings) as placed:
        make_server_dir(devices.flash / "space")
        with placed.server.connect() as connection:
            connection.execute("create extension pgflash")
            connection.execute(f"create tablespace fast location '{devices.flash / 'space'}'")
            for statement in TABLES.split(";"):
                if statement.strip():
                    connection.execute(statement)
        (placed.server.base / "order.sql").write_text(ORDER)
        yield placed
    factory.close()


def orders(placed: PlacedServer, seconds: int) -> subprocess.Popen[str]:
    """Start clients that place orders."""
    return placed.server.popen(
        [
            client_program(placed.server.install, "pgbench"),
            *("--no-vacuum", f"--client={CLIENTS}", "--jobs=1", f"--time={seconds}"),
            *(f"--file={placed.server.base / 'order.sql'}", "postgres"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def per_s(load: subprocess.Popen[str]) -> float:
    """Wait for clients to end, and return how many orders a second they did."""
    told, _nothing = load.communicate(timeout=PATIENCE_S)
    found = re.search(r"tps = ([\d.]+)", told)
    assert found is not None, told
    return float(found[1])


def more_per_s(placed: PlacedServer, least: float) -> float:
    """Return how many orders a second there are, more than LEAST; try again where it stalled."""
    measured = [0.0]

    def is_more() -> bool:
        measured.append(per_s(orders(placed, MEASURED_S)))
        return measured[-1] > least

    assert eventually(is_more), (least, measured)
    return measured[-1]


@contextlib.contextmanager
def taking(placed: PlacedServer) -> Iterator[Callable[[], int]]:
    """Return how many articles were ordered, as far as the server has counted."""
    with placed.server.connect() as connection:

        def taken() -> int:
            row = connection.execute(
                "select n_tup_upd from pg_stat_user_tables where relname = 'stock'"
            ).fetchone()
            assert row is not None
            return int(row[0])

        yield taken


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command line, and return what it prints."""
    capsys.readouterr()
    assert main(list(words)) == 0, capsys.readouterr()
    return capsys.readouterr().out


def tablespaces(placed: PlacedServer) -> dict[str, str]:
    """Return where tables and indexes are."""
    with placed.server.connect() as connection:
        rows = connection.execute(
            "select relname, coalesce(spcname, 'pg_default') from pg_class c left join "
            "pg_tablespace t on t.oid = reltablespace where relname ~ '^(stock|seldom)'"
        ).fetchall()
    return dict(rows)


def test_advice_is_carried_out_under_load_brings_what_it_said_and_is_taken_back(
    placed: PlacedServer, devices: Devices, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = ("--dsn", placed.dsn)
    plan = placed.plans / "plan.json"
    disks = devices.emulator
    disks.on()
    before = per_s(orders(placed, MEASURED_S))
    load = orders(placed, 600)
    with taking(placed) as taken:
        done = taken()
        # A new connection reads catalogs, and that is not the load.
        assert eventually(lambda: taken() > done + 50)
        run(capsys, "snapshot", *dsn)
        done = taken()
        assert eventually(lambda: taken() > done + 250)
    run(capsys, "snapshot", *dsn)

    # The advice itself is not measured.
    disks.off()
    # In so short a period chance decides which way is best: the one with the most moves is taken.
    words = ("--flash", str(devices.flash), "--tablespace", "fast", "--approach", "hot-objects")
    told = run(capsys, "advise", *dsn, *words, "--plan", str(plan), "--format", "json")
    advice = json.loads(told)
    # On a busy machine sessions wait for processors, too, and these may be the bottleneck.
    shares = dict(advice["bottleneck"]["shares"])
    assert shares["reads"] > 0.2, advice["sentence"]
    assert shares["reads"] > shares["commits"]
    way = next(way for way in advice["approaches"] if way["name"] == "hot-objects")
    *objects, last = read_plan(plan).moves
    assert last.kind is MoveKind.WAL
    assert (MoveKind.TABLE, "public.stock") in [(one.kind, one.name) for one in objects]
    # Its index fits into memory and may be left; nobody needs the other table.
    hot = {one.name.removeprefix("public.") for one in objects}
    assert hot <= {"stock", "stock_pkey"}

    disks.on()
    look_up = "select quantity from stock where id = 711"
    with StallWatch(placed.dsn, look_up) as watch:
        assert eventually(lambda: watch.done > 10)
        run(capsys, "plan", "apply", str(plan), *dsn, "--yes")
        moved = watch.done
        assert eventually(lambda: watch.done > moved + 10)
    end_load(load)  # the restart ended its sessions
    for name, place in tablespaces(placed).items():
        assert place == ("fast" if name in hot else "pg_default")
    assert placed.wal_folder == devices.flash / "pg_wal"
    after = more_per_s(placed, GAIN_MIN * before)

    disks.off()
    run(capsys, "plan", "undo", str(plan), *dsn, "--yes")
    disks.on()
    assert set(tablespaces(placed).values()) == {"pg_default"}
    assert placed.wal_folder == placed.data / "pg_wal"
    # It was the devices: back on the disks it is as slow as it was.
    again: list[float] = []

    def is_slow_again() -> bool:
        again.append(per_s(orders(placed, MEASURED_S)))
        return again[-1] < after / GAIN_MIN

    assert eventually(is_slow_again), again
    disks.off()
    with capsys.disabled():
        print(  # noqa: T201
            f"\nadvised {way['ratio']:.1f} times, brought {after / before:.1f} ({before:.0f}/s, "
            f"{after:.0f}/s; undone {again[-1]:.0f}/s), longest stall {watch.longest_s:.2f} s"
        )
    assert_indexes_whole(placed.server)
