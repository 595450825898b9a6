# SPDX-License-Identifier: PostgreSQL
"""A miniature scenario from end to end: on emulated devices, on real folders, interrupted."""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from pgflash.api import read_period
from pgflash.model.waits import WaitClass
from pgflash_lab.journal import progress_of
from pgflash_lab.model.run import Attempt, CacheUse
from pgflash_lab.postgres import PgInstall
from pgflash_lab.report.sentences import HELD_MIN
from pgflash_lab.store import Store, write_run
from pgflash_lab.throttled import ThrottleError, throttled_volume
from support.cached import has_contrib
from support.patience import PATIENCE_S, eventually
from support.runs import BASELINE, run_of
from support.runs import attempt as one_attempt

STOCK = "approaches=baseline,wal-on-flash,hot-objects,all-on-flash"

#: Everything that an approach can place elsewhere, all together.
OWN = """
name = "own"
title = "An own scenario"
[parameters]
warehouses = 1
clients = 2
mix = "read-mostly"
warmup_s = 1
measure_s = 2
shared_buffers = "16MB"
cache_times = 8
prefill = false
array = "sas15k-raid10-8"
flash = "nvme"
[settings]
track_io_timing = true
autovacuum = false
[[approaches]]
name = "baseline"
title = "Everything elsewhere"
temp = "flash"
archive = "flash"
cache = true
cache_files = 2
keep = ["customer"]
changes = { clients = 3 }
"""
TINY = ("--preset", "smoke", "--set", "measure_s=2", "--set", "clients=4")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store shared by this file's tests, so that the database is loaded once."""
    return tmp_path_factory.mktemp("store")


def command(install: PgInstall, store: Path, *words: str) -> list[str]:
    lab = [sys.executable, "-m", "pgflash", "lab", "run", "oltp-approaches", *TINY]
    return [*lab, "--pg-config", str(install.pg_config), "--store", str(store), *words]


def folders_of(lab: int) -> list[Path]:
    """Return the folders that a lab has locked for its run: other labs may run meanwhile."""
    found = []
    for fd in Path(f"/proc/{lab}/fd").iterdir():
        with suppress(OSError):
            target = fd.readlink()
            if target.name == "in-use" and target.parent.name.startswith("pgflash-lab-"):
                found.append(target.parent)
    return found


def servers_in(folders: Iterable[Path]) -> list[int]:
    """Return the servers and their clients that run on an emulator in one of these folders."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            program = (entry / "exe").readlink().name
        except OSError:
            continue
        if program.startswith(("postgres", "pgbench")) and b"PGFLASH_EMULATOR=" in environment:
            states = [e for e in environment.split(b"\0") if e.startswith(b"PGFLASH_EMULATOR=")]
            if any(os.fsencode(str(one)) in states[0] for one in folders):
                found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], object], what: str) -> None:
    assert eventually(condition, seconds=2 * PATIENCE_S), f"waited in vain for {what}"


def test_a_run_measures_stores_and_reports(pg_install: PgInstall, store: Path) -> None:
    folder = store / "end-to-end"
    done = subprocess.run(
        command(pg_install, store, "--set", STOCK, "--out", str(folder), "--format", "json"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((folder / "result.json").read_text())
    names = ["baseline", "wal-on-flash", "hot-objects", "all-on-flash"]
    assert list(result["approaches"]) == names
    assert list(result["ratios"]) == [f"{name}/baseline" for name in names[1:]]
    assert result["emulated_devices"] == ["sas15k-raid10-8", "nvme"]

    run = Store(root=store).read(str(folder))
    assert run.stopped == ""
    for attempt in run.attempts:
        assert attempt.nopm > 0
        assert len(attempt.consistency) == 11
        assert attempt.wait_rounds > 0
        assert attempt.cpu.server_s > 0
        assert attempt.cpu_seconds
        assert attempt.wal_bytes > 0
        _seconds_agree_with_the_devices(attempt)
    baseline, wal, hot, everything = run.attempts
    ratio = result["ratios"]["all-on-flash/baseline"]
    assert ratio == pytest.approx(everything.tpm / baseline.tpm, rel=0.01)
    # An array's read takes milliseconds, however busy the machine is.
    assert 0 < everything.reads.mean_ms < baseline.reads.mean_ms
    # Its hot tables are read from flash, the others from the array.
    assert hot.reads.flash > 0
    assert hot.reads.disk > 0
    assert hot.devices["array"]["log_sync_count"] == 0
    assert baseline.reads.disk == baseline.reads.blocks > 0
    assert baseline.reads.mean_ms > 1
    assert everything.reads.flash == everything.reads.blocks
    assert everything.reads.mean_ms < baseline.reads.mean_ms
    assert any(one.wait_class is WaitClass.USER_IO for one in baseline.waits)
    # The emulated devices saw the calls that the placement implies.
    assert baseline.devices["flash"]["log_sync_count"] == 0
    assert baseline.devices["array"]["log_sync_count"] > 0
    assert wal.devices["flash"]["log_sync_count"] > 0
    assert wal.devices["array"]["log_sync_count"] == 0
    assert everything.devices["array"]["read_count"] == 0
    page = (folder / "report.html").read_text()
    assert "sas15k-raid10-8 (emulated)" in page
    assert 'href="paper.html"' in page
    assert 'href="report.html"' in (folder / "paper.html").read_text()


def test_a_users_own_pgbench_script_is_a_workload(
    pg_install: PgInstall, store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    files = {
        "setup.sql": "CREATE TABLE thing (id int PRIMARY KEY, n int NOT NULL, pad text);\n"
        "INSERT INTO thing SELECT i, 0, repeat('x', 200) FROM generate_series(1, 20000) AS i;\n",
        "read.sql": "\\set id random(1, 20000)\nSELECT n FROM thing WHERE id = :id;\n",
        "write.sql": "\\set id random(1, 20000)\nUPDATE thing SET n = n + 1 WHERE id = :id;\n",
        "kept.sql": "-- condition 1: no thing is lost\nSELECT count(*) - 20000 FROM thing;\n",
        "broken.sql": "SELECT * FROM nowhere;\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    lab = [sys.executable, "-m", "pgflash", "lab", "run", "pgbench", "--preset", "smoke"]
    lab += ["--pg-config", str(pg_install.pg_config), "--store", str(store), "--out", str(folder)]
    own = ["scale=0", "measure_s=2"]
    own += ["setup=setup.sql", "conditions=kept.sql"]
    lab += [word for change in own for word in ("--set", change)]
    scripts = "script=read.sql@3,write.sql"
    done = subprocess.run(
        [*lab, "--set", scripts, "--set", "approaches=baseline,all-on-flash"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    run = Store(root=store).read(str(folder))
    assert set(run.files) == {"setup.sql", "read.sql", "write.sql", "kept.sql"}
    for attempt in run.attempts:
        assert attempt.workload == "pgbench"
        assert attempt.consistency == ("1 no thing is lost",)
        assert {one.transaction for one in attempt.by_transaction} == {"read.sql", "write.sql"}
        assert sum(one.count for one in attempt.by_transaction) == attempt.transactions > 0
        assert attempt.facts["failed"] == 0
    assert run.attempts[0].devices["flash"]["log_sync_count"] == 0
    assert run.attempts[1].devices["flash"]["log_sync_count"] > 0

    # Half of a run by one script and half by another would be no run.
    (tmp_path / "read.sql").write_text("SELECT 1;\n")
    again = subprocess.run(
        [*lab, "--set", scripts, "--set", "approaches=baseline,all-on-flash", "--resume"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "it differs in files: read.sql was" in again.stderr
    # An error of the server is reported in its own words.
    failed = subprocess.run(
        [*lab, "--set", "script=broken.sql", "--set", "approaches=all-on-flash"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert failed.returncode == 1
    assert 'relation "nowhere" does not exist' in failed.stderr
    assert "setting random seed" not in failed.stderr


def _seconds_agree_with_the_devices(attempt: Attempt) -> None:
    """The readings of each second are part of the devices' totals."""
    assert {one.blocked_from for one in attempt.host_seconds} == {"sessions"}
    assert any(one.context_switches_per_s > 0 for one in attempt.host_seconds)
    for role in ("array", "flash"):
        seconds = [one for one in attempt.disk_seconds if one.role == role]
        assert seconds
        counted = attempt.devices[role]
        assert sum(one.reads for one in seconds) <= counted["read_count"]
        assert sum(one.read_bytes for one in seconds) <= counted["read_bytes"]
        syncs, writes = counted["log_sync_count"], counted["write_count"]
        assert sum(one.writes for one in seconds) <= syncs + writes
        busy = [one for one in seconds if one.reads]
        assert all(one.read_ms > 0 for one in busy)
    # The host's bytes are those of its devices in the same seconds, however long these were.
    for before, one in itertools.pairwise(attempt.host_seconds):
        of_devices = sum(disk.read_bytes for disk in attempt.disk_seconds if disk.at_s == one.at_s)
        of_host = one.in_bytes_per_s * (one.at_s - before.at_s)
        assert of_host == pytest.approx(of_devices, rel=1e-3, abs=1.0)


@pytest.mark.extension
def test_a_run_with_a_flash_cache_says_what_it_served(
    pgflash_install: PgInstall, store: Path, tmp_path: Path
) -> None:
    prefilled = has_contrib(pgflash_install, "pg_prewarm")
    words = ["--set", "approaches=baseline,flash-cache", "--format", "json"]
    words += ["--set", f"prefill={str(prefilled).lower()}"]
    done = subprocess.run(
        command(pgflash_install, store, *words, "--out", str(tmp_path / "run")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["approaches"]["flash-cache"]["hit_ratio"] > 0
    assert result["approaches"]["baseline"]["hit_ratio"] is None

    (baseline, cached) = Store(root=store).read(str(tmp_path / "run")).attempts
    ratio = result["ratios"]["flash-cache/baseline"]
    assert ratio == pytest.approx(cached.tpm / baseline.tpm, rel=0.01)
    assert baseline.cache is None
    assert cached.cache is not None
    assert cached.cache.mode == "serve"
    assert cached.cache.counters["verify_mismatches"] == 0
    assert cached.reads.flash == cached.cache.counters["hits"] > 0
    _each_miss_has_its_reason(cached.cache, prefilled=prefilled)
    # A hit on a block that is still in the staging ring needs no read of the device.
    staged = cached.cache.counters["staged_hits"]
    assert cached.devices["flash"]["read_count"] >= cached.reads.flash - staged
    # The means are the measured phase's own: emulated flash answers faster than the array.
    gauges = cached.cache.gauges
    assert gauges["flash_read_mean_ms"] < gauges["disk_read_mean_ms"]
    seen = [one.hits for one in cached.cache_seconds]
    assert seen == sorted(seen)
    assert seen
    _each_server_has_its_report(tmp_path / "run", cached)


def test_an_approach_places_what_it_says(
    pgflash_install: PgInstall, store: Path, tmp_path: Path
) -> None:
    scenario = tmp_path / "own.toml"
    scenario.write_text(OWN)
    words = [sys.executable, "-m", "pgflash", "lab", "run", str(scenario)]
    words += ["--pg-config", str(pgflash_install.pg_config), "--store", str(store)]
    done = subprocess.run(
        [*words, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    run = Store(root=store).read(str(tmp_path / "run"))
    (attempt,) = run.attempts
    assert attempt.clients == 3
    assert attempt.cache is not None
    assert attempt.cache.size_bytes == 8 * 16 * 2**20
    assert attempt.cache.gauges["keep_blocks"] > 0
    # The cache's files are on one device each.
    for name in ("flash", "flash-2"):
        assert attempt.devices[name]["write_count"] > 0
    assert {one.role for one in attempt.disk_seconds} == {"array", "flash", "flash-2"}


def _each_miss_has_its_reason(cache: CacheUse, *, prefilled: bool) -> None:
    """A block misses once if the cache does not have it, and again if it lost it since.

    Their number depends on the machine's speed; that they occur does not.
    """
    counters = cache.counters
    dropped = sum(n for name, n in counters.items() if name.startswith("eviction_"))
    dropped -= counters["updates"]  # these came back with their new content
    not_put_in = sum(n for name, n in counters.items() if name.startswith("insert_skip_"))
    not_cached = cache.gauges["blocks_not_cached_before"]
    misses = cache.gauges["database_misses"]
    assert misses <= not_cached + dropped + not_put_in, counters
    # The load finds all blocks of a database that was read block by block, except those that it
    # writes again.
    assert not_cached < (0.2 if prefilled else 1.0) * cache.slots
    assert not prefilled or cache.gauges["cached_share_before"] > HELD_MIN


def _each_server_has_its_report(folder: Path, cached: Attempt) -> None:
    page = (folder / "report.html").read_text()
    for name in ("awr-baseline.html", "awr-flash-cache.html", "compare-flash-cache.html"):
        assert f'href="{name}"' in page
        assert 'href="report.html"' in (folder / name).read_text()
    baseline = read_period(folder / "awr-01-baseline.json")
    own = read_period(folder / "awr-02-flash-cache.json")
    # The lab's figures of the cache and the server's own report are of the same snapshots.
    reads = dict(
        zip(*(own.table("flash-cache").values(one) for one in ("name", "total")), strict=True)
    )
    assert cached.cache is not None
    assert reads["hits"] == cached.cache.counters["hits"]
    # So are the waits, which the server's sampler saw.
    assert cached.wait_rounds > 0
    assert any(one.wait_class is WaitClass.COMMIT for one in cached.waits)
    # Snapshots were taken while the load ran, at full seconds.
    assert own.head.snapshots >= 3
    intervals = own.table("throughput-over-time").values("elapsed_s")
    # snapshot_s is 1; on a busy machine one comes late, and is followed sooner.
    assert all(isinstance(one, float) and one > 0 for one in intervals)
    # Only one of them had a flash cache, and so only its report has a table of it.
    assert baseline.table("flash-cache").missing_reason
    read_from = {row.cells[0] for row in baseline.table("top-events").rows}
    assert "data file read, disk" in read_from
    assert "data file read, flash cache" not in read_from


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(
    pg_install: PgInstall, store: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    folder = tmp_path / "run"
    words = ("--set", "approaches=baseline,all-on-flash", "--set", "repeats=20")
    process = subprocess.Popen(
        command(pg_install, store, *words, "--out", str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for((folder / "run.json").exists, "the first attempt")
        wait_for(lambda: servers_in(folders_of(process.pid)), "the second attempt's server")
        used = folders_of(process.pid)
        _what_it_did_each_second_is_told(folder)
        process.send_signal(ending)
        _, complaint = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 130
    assert complaint.strip().splitlines()[-1].startswith("pgflash: interrupted")
    assert "Traceback" not in complaint
    wait_for(lambda: not servers_in(used), "the servers' end")
    assert not [folder for folder in used if folder.exists()]
    stopped = Store(root=store).read(str(folder))
    assert stopped.stopped == "interrupted"
    assert stopped.attempts


def _what_it_did_each_second_is_told(folder: Path) -> None:
    # The first second of an attempt may be told before pgbench has counted.
    wait_for(
        lambda: (told := progress_of(folder)) and any(one.per_s for one in told.seconds),
        "a second's transactions",
    )
    told = progress_of(folder)
    assert told is not None
    assert told.counted == "transactions"
    assert told.attempt.startswith("Everything on ")
    assert {name for one in told.seconds for name in one.bytes_per_s} == {"array", "flash"}
    times = [one.at_s for one in told.seconds]
    assert times == sorted(set(times))


def test_a_killed_run_leaves_no_server_and_goes_on_where_it_was(
    pg_install: PgInstall, store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    order = command(pg_install, store, "--set", "approaches=baseline,all-on-flash")
    process = subprocess.Popen([*order, "--out", str(folder)], stderr=subprocess.DEVNULL)
    try:
        wait_for((folder / "run.json").exists, "the first attempt")
        wait_for(lambda: servers_in(folders_of(process.pid)), "the second attempt's server")
        used = folders_of(process.pid)
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not servers_in(used), "the servers' end")
    killed = Store(root=store).read(str(folder))
    assert (len(killed.attempts), killed.ended_at, killed.stopped) == (1, "", "")

    # The same order resumes the run; a different one is refused.
    changed = [*order, "--resume", "--out", str(folder), "--set", "measure_s=9"]
    refused = subprocess.run(changed, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "it differs in parameters" in refused.stderr
    assert Store(root=store).read(str(folder)) == killed
    # The same command again is enough.
    again = [*order, "--resume", "unfinished", "--out", str(folder)]
    done = subprocess.run(again, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    whole = Store(root=store).read(str(folder))
    assert [one.approach for one in whole.attempts] == ["baseline", "all-on-flash"]
    assert whole.attempts[0] == killed.attempts[0]
    assert whole.id == killed.id
    assert whole.ended_at
    assert (folder / "report.html").exists()
    # Everything that the killed lab left behind is gone.
    assert not [one for one in used if one.exists()]


def test_a_run_without_room_is_refused_before_anything_is_loaded(
    pg_install: PgInstall, tmp_path: Path
) -> None:
    words = ("--set", STOCK, "--set", "warehouses=100000000", "--resume", "unfinished")
    stopped = run_of(one_attempt(BASELINE, tpm=100), stopped="interrupted")
    write_run(Store(root=tmp_path).folder(stopped.id), stopped)
    done = subprocess.run(
        command(pg_install, tmp_path, *words), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    # The unfinished run is another one, and stays.
    assert f"cannot resume run {stopped.id}" in done.stderr
    assert "a new run begins" in done.stderr
    assert Store(root=tmp_path).read(stopped.id) == stopped
    assert "of free space, the run needs" in done.stderr
    assert not list((tmp_path / "cache").iterdir())


def require_throttle(folder: Path) -> None:
    """Skip unless this machine can limit a volume."""
    try:
        with throttled_volume(folder, size_bytes=64 << 20, memory_bytes=64 << 20) as volume:
            volume.limit(read_iops=2000)
    except ThrottleError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("limits", [(), ("--read-iops", "2000", "--memory", "2GB")])
def test_real_folders_are_used_and_left_empty(
    pg_install: PgInstall, store: Path, tmp_path: Path, limits: tuple[str, ...]
) -> None:
    memory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    disk = tmp_path / "disk"
    disk.mkdir()
    if memory.stat().st_dev == disk.stat().st_dev:
        pytest.skip("the temporary folder is in memory itself")
    # The servers' user must be able to enter both, as it must a mount point.
    for folder in (memory, *tmp_path.parents[:3], tmp_path, disk):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/tmp"):
            folder.chmod(0o755)
    words = ("--hdd", str(disk), "--flash", str(memory), *limits, "--format", "json")
    if limits:
        require_throttle(tmp_path)
    try:
        done = subprocess.run(
            command(pg_install, store, *words, "--set", "approaches=wal-on-flash"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["emulated_devices"] == []
        assert result["devices"]["flash"]["name"] == str(memory)
        limited = "limited by the kernel: 2,000 reads a second, 2.00 GB of memory"
        assert (limited in result["devices"]["array"]["summary"]) == bool(limits)
        assert result["approaches"]["wal-on-flash"]["tpm"] > 0
        run = Store(root=store).read(result["run"])
        assert not run.attempts[0].reads.page_cache_known
        assert list(memory.iterdir()) == []
        assert list(disk.iterdir()) == []
    finally:
        memory.rmdir()


def test_one_device_twice_is_refused(pg_install: PgInstall, store: Path, tmp_path: Path) -> None:
    for name in ("disk", "ssd"):
        (tmp_path / name).mkdir()
    words = ("--hdd", str(tmp_path / "disk"), "--flash", str(tmp_path / "ssd"), "--set", STOCK)
    done = subprocess.run(
        command(pg_install, store, *words), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "are on the same device" in done.stderr
