# SPDX-License-Identifier: PostgreSQL
"""The doctor's rules: each finds what it is there to find, and says when it cannot know."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgflash.advise.doctor import HOST_RULES, OWN_RULES, PGFLASH_RULES, check, diagnose
from pgflash.advise.doctor.limits import AIO_PER_PROCESS
from pgflash.collect.host_settings import read_host
from pgflash.model.device import DepthPoint, DeviceFacts, DiskFacts, Media, Probe
from pgflash.model.doctor import (
    UNLIMITED,
    CacheFacts,
    Diagnosis,
    DoctorFacts,
    HostSettings,
    Outcome,
    ServerSettings,
    TablespaceSettings,
)
from support.cluster import REPOSITORY
from support.machines import FakeMachine

GB = 2**30

DISK = DiskFacts(
    name="nvme0n1",
    media=Media.FLASH,
    size_bytes=1000 * GB,
    scheduler="none",
    schedulers=("none", "mq-deadline", "bfq"),
    queue_requests=1023,
    discards=True,
)
DEVICE = DeviceFacts(
    name="nvme0n1p1",
    mount_point="/pg",
    parts=("data", "wal", "temp"),
    block_device="/dev/nvme0n1p1",
    media=Media.FLASH,
    file_system="xfs",
    size_bytes=1000 * GB,
    free_bytes=500 * GB,
    scheduler="none",
    queue_depth=1023,
    read_ahead_bytes=128 * 1024,
    mount_options=("rw", "noatime"),
    alignment_bytes=2**20,
    disks=(DISK,),
)
HOST = HostSettings(
    cores=8,
    memory_bytes=16 * GB,
    swap_bytes=GB,
    committed_bytes=4 * GB,
    sysctls={
        "vm.swappiness": 1,
        "vm.dirty_ratio": 20,
        "vm.dirty_bytes": 0,
        "vm.dirty_background_ratio": 3,
        "vm.dirty_background_bytes": 0,
        "vm.overcommit_memory": 2,
        "vm.nr_hugepages": 2200,
        "kernel.shmmax": 2**63,
        "fs.aio-max-nr": 2**20,
        "fs.aio-nr": 0,
        "fs.file-max": 2**40,
    },
    huge_page_bytes=2 * 2**20,
    huge_pages=2200,
    transparent_huge_pages="madvise",
    shm_bytes=8 * GB,
    limits={"Max open files": 65536, "Max processes": UNLIMITED},
    postmaster_uid=105,
    remove_ipc=True,
)
SERVER = ServerSettings(
    version_num=180004,
    settings={
        "data_checksums": "on",
        "dynamic_shared_memory_type": "posix",
        "effective_io_concurrency": "200",
        "huge_pages": "try",
        "huge_pages_status": "on",
        "io_method": "worker",
        "io_workers": "3",
        "max_connections": "100",
        "max_files_per_process": "1000",
        "max_wal_senders": "10",
        "max_worker_processes": "8",
        "pgflash.cache_file": "/flash/cache",
        "pgflash.cache_size": str(100 * GB // 8192),
        "pgflash.keep_share": "50",
        "pgflash.snapshot_interval": "600",
        "random_page_cost": "1.1",
        "shared_memory_size": "4300",
        "shared_memory_size_in_huge_pages": "2150",
        "shared_memory_type": "mmap",
        "wal_init_zero": "on",
    },
    units={"shared_memory_size": "MB", "pgflash.cache_size": "8kB"},
    tablespaces=(TablespaceSettings(name="pg_default"),),
)
CACHE_DEVICE = replace(DEVICE, name="nvme1n1p1", mount_point="/flash", parts=("cache",))
CACHE = CacheFacts(
    cache={
        "mode": "serve",
        "mode_reason": "working",
        "size_bytes": 100 * GB,
        "slots": 1000,
        "keep_blocks": 10,
        "writer_running": True,
        "page_cache_check": "cachestat",
        "write_budget_left_bytes": GB,
        "resize_reason": None,
    },
    devices=({"cache_file": "/flash/cache", "state": "in use", "state_reason": ""},),
    benefit={
        "flash_reads": 10_000,
        "flash_read_ms": 1000.0,
        "disk_reads": 10_000,
        "disk_read_ms": 50_000.0,
        "finding": "Reads waited 49 % less.",
    },
)
SOUND = DoctorFacts(
    server=SERVER, host=HOST, devices=(DEVICE, CACHE_DEVICE), cache=CACHE, snapshot_age_s=300
)


def cache(**columns: object) -> DoctorFacts:
    return replace(SOUND, cache=replace(CACHE, cache={**CACHE.cache, **columns}))


def saved(**columns: object) -> DoctorFacts:
    return replace(SOUND, cache=replace(CACHE, benefit={**(CACHE.benefit or {}), **columns}))


BYPASSED = {"cache_file": "/flash/cache", "state": "bypassed", "state_reason": "it was slow"}


def device(**changes: Any) -> DoctorFacts:  # noqa: ANN401 - fields of a dataclass
    return replace(SOUND, devices=(replace(DEVICE, **changes), CACHE_DEVICE))


def disk(**changes: Any) -> DoctorFacts:  # noqa: ANN401 - fields of a dataclass
    return device(disks=(replace(DISK, **changes),))


def host(**changes: Any) -> DoctorFacts:  # noqa: ANN401 - fields of a dataclass
    return replace(SOUND, host=replace(HOST, **changes))


def sysctl(name: str, value: int) -> DoctorFacts:
    return host(sysctls={**HOST.sysctls, name: value})


def server(major: int = 18, **settings: str | None) -> DoctorFacts:
    """Return sound facts with other settings; None: it is not there."""
    merged: Mapping[str, str | None] = {
        **SERVER.settings,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    kept = {name: value for name, value in merged.items() if value is not None}
    return replace(SOUND, server=replace(SERVER, version_num=major * 10_000, settings=kept))


def turning(**changes: Any) -> DoctorFacts:  # noqa: ANN401 - fields of a dataclass
    """Return facts with everything on a disk that turns."""
    spindle = replace(
        DISK, name="sda", media=Media.HDD, scheduler="mq-deadline", queue_requests=256
    )
    own = {"media": Media.HDD, "read_ahead_bytes": 4 * 2**20, "disks": (spindle,)}
    facts = device(**{**own, **changes})
    return replace(
        facts,
        server=replace(SERVER, settings={**SERVER.settings, "random_page_cost": "4"}),
    )


def of(facts: DoctorFacts, rule: str) -> list[Diagnosis]:
    return [one for one in diagnose(facts) if one.rule == rule]


def test_where_all_is_well_every_rule_says_so() -> None:
    found = diagnose(SOUND)
    assert {one.outcome for one in found} == {Outcome.GOOD}
    silent = {"sync-mount"}  # it has nothing to look at here
    assert not silent & {one.rule for one in found}
    rules = len(PGFLASH_RULES) + len(HOST_RULES) + len(OWN_RULES)
    assert len({one.rule for one in found}) == rules - len(silent)
    assert {one.outcome for one in diagnose(turning())} == {Outcome.GOOD}
    assert [one.rule for one in check(SOUND)] == [one.rule for one in found][: len(PGFLASH_RULES)]


#: What is wrong, which rule finds it, how bad it is, and a word of the command that changes it.
FINDINGS: list[tuple[str, DoctorFacts, Outcome, str]] = [
    ("cache-mode", cache(mode="passthrough", mode_reason="set by a user"), Outcome.WARNING,
     "pgflash_cache_set_mode('serve')"),
    ("cache-mode", cache(mode="offline", mode_reason="no room"), Outcome.WARNING, "restart"),
    ("cache-faults", cache(verify_mismatches=1), Outcome.CRITICAL, "report it"),
    ("cache-faults", cache(read_timeouts=1), Outcome.WARNING, "pgflash_cache_devices"),
    ("cache-file", replace(SOUND, cache=replace(CACHE, devices=(BYPASSED,))), Outcome.WARNING,
     "pgflash_cache_devices"),
    ("cache-workers", cache(writer_running=False), Outcome.WARNING, "max_worker_processes = 16"),
    ("page-cache-check", cache(page_cache_check="none"), Outcome.WARNING, "seccomp profile"),
    ("cache-size", cache(resize_reason="the device is full"), Outcome.WARNING, "cache_size"),
    ("cache-benefit", saved(flash_read_ms=50_000.0), Outcome.WARNING, "pgflash devices"),
    ("cache-budget", cache(write_budget_left_bytes=0), Outcome.NOTE, "pgflash.write_budget"),
    ("cache-keep", cache(keep_blocks=500), Outcome.NOTE, "pgflash_cache_policy"),
    ("cache-device", device(parts=("data", "cache", "wal", "temp")), Outcome.WARNING,
     "pgflash.cache_file"),
    ("snapshots", replace(SOUND, snapshot_age_s=4000), Outcome.WARNING, "pgflash snapshot"),
    ("alignment", device(alignment_bytes=512), Outcome.WARNING, "1MiB"),
    ("alignment", device(alignment_bytes=4096), Outcome.NOTE, "1MiB"),
    ("scheduler", disk(scheduler="bfq"), Outcome.WARNING,
     "echo none > /sys/block/nvme0n1/queue/scheduler"),
    ("scheduler", disk(scheduler="cfq", schedulers=("noop", "deadline", "cfq")), Outcome.WARNING,
     "echo noop >"),
    ("scheduler", turning(disks=(replace(DISK, media=Media.HDD),)), Outcome.NOTE,
     "echo mq-deadline >"),
    ("queue-depth", disk(queue_depth=1), Outcome.WARNING, "device/queue_depth"),
    ("queue-depth", disk(scheduler="mq-deadline", queue_requests=128), Outcome.NOTE,
     "echo 512 > /sys/block/nvme0n1/queue/nr_requests"),
    ("read-ahead", device(read_ahead_bytes=0), Outcome.WARNING, "--setra 2048 /dev/nvme0n1p1"),
    ("read-ahead", turning(read_ahead_bytes=128 * 1024), Outcome.NOTE, "--setra 8192"),
    ("read-ahead", device(read_ahead_bytes=64 * 2**20), Outcome.NOTE, "--setra 2048"),
    # A tenth of 1000 GB is to be free, and 40 are: the cache gives 60 back.
    ("over-provisioning", device(parts=("cache",), free_bytes=40 * GB), Outcome.NOTE,
     f"SET pgflash.cache_size = '{40 * 1024 - 1}MB'"),
    ("discard", device(mount_options=("rw", "noatime", "discard")), Outcome.NOTE, "fstrim.timer"),
    ("noatime", device(mount_options=("rw",)), Outcome.WARNING, "remount,noatime /pg"),
    ("barriers", device(mount_options=("rw", "noatime", "nobarrier")), Outcome.CRITICAL,
     "barrier=1"),
    ("barriers", device(mount_options=("noatime", "barrier=0")), Outcome.CRITICAL, "barrier=1"),
    ("sync-mount", device(mount_options=("rw", "sync", "noatime")), Outcome.WARNING, "async"),
    ("lasting", device(media=Media.MEMORY, file_system="tmpfs", disks=()), Outcome.CRITICAL,
     "data, wal, temp"),
    ("lasting", device(media=Media.UNKNOWN, file_system="overlay", disks=()), Outcome.CRITICAL,
     "--volume"),
    ("lasting", device(media=Media.NETWORK, file_system="nfs4", mount_options=("soft", "noatime")),
     Outcome.CRITICAL, "hard"),
    ("swappiness", sysctl("vm.swappiness", 60), Outcome.NOTE, "sysctl -w vm.swappiness=1"),
    ("swappiness", sysctl("vm.swappiness", 0), Outcome.NOTE, "sysctl -w vm.swappiness=1"),
    # 10 % of 16 GB is 1.6 GB; of 256 GB it is 25.6 GB.
    ("dirty-background", sysctl("vm.dirty_background_ratio", 10), Outcome.NOTE,
     "vm.dirty_background_bytes=268435456"),
    ("dirty-background", host(memory_bytes=512 * GB), Outcome.WARNING,
     "vm.dirty_background_bytes"),
    ("dirty-background", sysctl("vm.dirty_background_bytes", 2 * GB), Outcome.NOTE,
     "vm.dirty_background_bytes"),
    ("dirty-ratio", sysctl("vm.dirty_ratio", 5), Outcome.NOTE, "vm.dirty_ratio=40"),
    ("huge-pages", server(huge_pages_status="off"), Outcome.NOTE, "vm.nr_hugepages=4350"),
    ("huge-pages", server(huge_pages_status="off", shared_memory_size="20000"), Outcome.WARNING,
     "huge_pages = try"),
    ("huge-pages", server(17, huge_pages_status=None, huge_pages="off"), Outcome.NOTE, "nr_huge"),
    ("transparent-huge-pages", host(transparent_huge_pages="always"), Outcome.NOTE, "madvise"),
    ("overcommit", sysctl("vm.overcommit_memory", 0), Outcome.NOTE, "vm.overcommit_memory=2"),
    ("shared-memory", host(shm_bytes=64 * 2**20), Outcome.WARNING, "remount,size=1G /dev/shm"),
    ("shared-memory", host(shm_bytes=64 * 2**20, container="Docker"), Outcome.WARNING,
     "--shm-size"),
    ("system-v-memory",
     replace(server(shared_memory_type="sysv"),
             host=replace(HOST, sysctls={**HOST.sysctls, "kernel.shmmax": GB})),
     Outcome.WARNING, "kernel.shmmax"),
    ("remove-ipc", host(postmaster_uid=1000), Outcome.WARNING, "RemoveIPC=no"),
    ("open-files", host(limits={"Max open files": 999}), Outcome.NOTE, "LimitNOFILE"),
    ("file-max", sysctl("fs.file-max", 100_000), Outcome.NOTE, "fs.file-max=6815744"),
    ("processes", host(limits={"Max processes": 100}), Outcome.WARNING, "LimitNPROC=16384"),
    ("aio-max-nr", sysctl("fs.aio-max-nr", 4000), Outcome.WARNING, "fs.aio-max-nr=1048576"),
    ("random-page-cost", server(random_page_cost="4"), Outcome.WARNING,
     'ALTER TABLESPACE "pg_default" SET (random_page_cost = 1.1);'),
    ("random-page-cost", server(random_page_cost="2.5"), Outcome.NOTE, "random_page_cost = 1.1"),
    ("random-page-cost", replace(turning(), server=SERVER), Outcome.NOTE, "random_page_cost = 4"),
    ("effective-io-concurrency", server(effective_io_concurrency="1"), Outcome.NOTE,
     "effective_io_concurrency = 200"),
    ("effective-io-concurrency",
     replace(turning(disks=tuple(replace(DISK, name=f"sd{n}", media=Media.HDD,
                                         scheduler="mq-deadline") for n in "abcdef")),
             server=replace(SERVER, settings={**SERVER.settings, "random_page_cost": "4",
                                              "effective_io_concurrency": "1"})),
     Outcome.NOTE, "effective_io_concurrency = 6"),
    ("io-method", server(io_method="sync"), Outcome.NOTE, "io_method = worker"),
    ("io-workers", host(cores=64), Outcome.NOTE, "io_workers = 16"),
    ("wal-init-zero", device(file_system="btrfs"), Outcome.NOTE, "wal_recycle = off"),
    ("wal-init-zero", server(wal_init_zero="off"), Outcome.NOTE, "wal_init_zero = on"),
    ("checksums", server(data_checksums="off"), Outcome.WARNING, "pg_checksums --enable"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "facts", "outcome", "command"),
    FINDINGS,
    ids=[f"{one[0]}-{one[2]}" for one in FINDINGS],
)
def test_a_rule_finds_what_is_wrong_and_names_reason_source_and_command(
    rule: str, facts: DoctorFacts, outcome: Outcome, command: str
) -> None:
    worst = of(facts, rule)[0]
    assert worst.outcome is outcome
    assert command in "\n".join(worst.commands)
    assert worst.sentence.endswith(".")
    assert worst.reason.endswith(".")
    assert worst.source
    # Nothing else is wrong with these facts, so nothing else is found.
    others = {one.rule for one in diagnose(facts) if one.outcome is not Outcome.GOOD} - {rule}
    assert others <= ALONG.get(rule, set())


#: What goes along with something: a container's layer has no disk to be looked at.
ALONG = {
    "lasting": {
        "random-page-cost", "effective-io-concurrency", "scheduler", "queue-depth", "read-ahead",
    },
    "over-provisioning": {"wal-init-zero", "random-page-cost", "effective-io-concurrency"},
    "scheduler": {"queue-depth"},
    "open-files": {"processes"},
    "processes": {"open-files"},
    "effective-io-concurrency": {"io-workers"},
}  # fmt: skip


UNKNOWN: list[tuple[str, DoctorFacts]] = [
    ("alignment", device(alignment_bytes=None, unknown={"alignment_bytes": "nobody tells"})),
    ("scheduler", disk(scheduler="")),
    ("queue-depth", disk(queue_requests=None)),
    ("read-ahead", device(read_ahead_bytes=None)),
    ("over-provisioning", device(parts=("cache",), free_bytes=None)),
    ("swappiness", host(sysctls={})),
    ("dirty-background", host(memory_bytes=None)),
    ("dirty-ratio", host(sysctls={})),
    ("huge-pages", server(shared_memory_size=None)),
    ("huge-pages", server(16, huge_pages_status=None)),
    ("transparent-huge-pages", host(transparent_huge_pages="")),
    ("cache-views", replace(SOUND, cache=None, why_no_cache="it is not here")),
    ("overcommit", host(sysctls={})),
    ("cache-benefit", saved(disk_reads=10)),
    ("cache-benefit", replace(SOUND, cache=replace(CACHE, benefit=None))),
    ("shared-memory", host(shm_bytes=None)),
    ("remove-ipc", host(postmaster_uid=None)),
    ("open-files", host(limits={})),
    ("file-max", host(sysctls={})),
    ("processes", host(limits={})),
    ("aio-max-nr", host(sysctls={})),
    ("random-page-cost", device(media=Media.UNKNOWN)),
    ("random-page-cost", replace(SOUND, devices=())),
    ("effective-io-concurrency", device(media=Media.UNKNOWN)),
    ("io-method", server(io_method=None)),
    ("io-workers", server(io_workers=None)),
    ("wal-init-zero", replace(SOUND, devices=())),
    ("checksums", server(data_checksums=None)),
]


@pytest.mark.parametrize(("rule", "facts"), UNKNOWN, ids=[one[0] for one in UNKNOWN])
def test_a_rule_that_cannot_know_says_so(rule: str, facts: DoctorFacts) -> None:
    assert {one.outcome for one in of(facts, rule)} - {Outcome.GOOD} == {Outcome.UNKNOWN}


def test_every_rule_has_a_finding_above() -> None:
    rules = {one.rule for one in diagnose(SOUND)} | {"sync-mount"}
    # Views are there, or it is not known what is.
    assert {rule for rule, _facts, _outcome, _command in FINDINGS} == rules - {"cache-views"}


@pytest.mark.parametrize(
    ("committed_bytes", "swap_bytes", "ratio"),
    # A tenth of 16 GB is in huge pages; 1.5 times what is promised has to fit.
    [(4 * GB, 0, 80), (8 * GB, 0, 84), (9 * GB, GB, 87), (10 * GB, 0, None), (None, 0, None)],
)
def test_a_server_can_be_started_after_what_is_advised_against_overcommitment(
    committed_bytes: int | None, swap_bytes: int, ratio: int | None
) -> None:
    facts = host(
        sysctls={**HOST.sysctls, "vm.overcommit_memory": 0},
        committed_bytes=committed_bytes,
        swap_bytes=swap_bytes,
        huge_pages=1600 * GB // 1000 // (2 * 2**20),
    )
    commands = of(facts, "overcommit")[0].commands
    assert (commands == ()) == (ratio is None)
    if committed_bytes is None or ratio is None:
        return
    assert commands[0] == f"sysctl -w vm.overcommit_ratio={ratio}"
    assert commands[2] == "sysctl -w vm.overcommit_memory=2"
    # The kernel's own formula: Linux documentation, filesystems/proc, CommitLimit.
    limit = swap_bytes + ratio / 100 * (16 * GB - 1.6 * GB)
    assert limit >= 1.5 * committed_bytes


def test_a_probe_knows_better_than_a_label() -> None:
    def probe(mean_ms: float) -> Probe:
        point = DepthPoint(depth=1, iops=1000 / mean_ms, mean_ms=mean_ms, p99_ms=mean_ms)
        return Probe(
            random_reads=(point,), read_bytes_s=1, write_bytes_s=1, sync_ms=1, sync_p99_ms=1,
            by="pgflash", at="",
        )  # fmt: skip

    cost = {"random_page_cost": "4"}
    slow = device(media=Media.FLASH, probe=probe(8.0))
    fast = device(media=Media.UNKNOWN, probe=probe(0.2))
    for facts, outcome in ((slow, Outcome.GOOD), (fast, Outcome.WARNING)):
        settings = {**SERVER.settings, **cost}
        changed = replace(facts, server=replace(SERVER, settings=settings))
        assert of(changed, "random-page-cost")[0].outcome is outcome


def test_a_tablespaces_own_parameters_count() -> None:
    spaces = (
        TablespaceSettings(name="pg_default"),
        TablespaceSettings(name='odd "name', options={"random_page_cost": "4"}),
    )
    facts = device(parts=("data", "wal", 'tablespace odd "name'))
    facts = replace(facts, server=replace(SERVER, tablespaces=spaces))
    found = {one.subject: one for one in of(facts, "random-page-cost")}
    assert found["pg_default"].outcome is Outcome.GOOD
    assert found['odd "name'].commands[0].startswith('ALTER TABLESPACE "odd ""name" SET')


def test_without_the_machine_only_the_server_is_checked_and_it_is_said() -> None:
    found = diagnose(DoctorFacts(server=SERVER, host=None, why_no_host="it is elsewhere"))
    (machine,) = [one for one in found if one.rule == "machine"]
    assert machine.outcome is Outcome.UNKNOWN
    assert "it is elsewhere" in machine.sentence
    assert {one.rule for one in found} == {
        "cache-views", "machine", "checksums", "io-method", "wal-init-zero", "random-page-cost",
        "effective-io-concurrency",
    }  # fmt: skip


def test_the_worst_stands_first_and_a_disk_of_two_devices_is_checked_once() -> None:
    second = replace(DEVICE, name="p2", mount_point="/two", parts=("archive",))
    facts = replace(SOUND, devices=(DEVICE, replace(second, mount_options=("nobarrier",))))
    found = diagnose(facts)
    places = [list(Outcome).index(one.outcome) for one in found]
    assert places == sorted(places)
    assert len([one for one in found if one.rule == "scheduler"]) == 1
    # What an archive holds can be written again, so its barriers are left alone.
    assert {one.subject for one in found if one.rule == "barriers"} == {"/pg"}


def test_the_number_of_requests_is_that_of_the_cache_itself() -> None:
    header = (REPOSITORY / "core/src/queue.h").read_text()
    assert f"#define FC_QUEUE_DEPTH_READER {AIO_PER_PROCESS}\n" in header


def test_every_rule_is_documented_with_its_source() -> None:
    guide = (REPOSITORY / "docs/guide/doctor.md").read_text()
    for rule, _facts, _outcome, _command in FINDINGS:
        assert f"| `{rule}` |" in guide


# ---- the machine's settings, from files


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_the_machines_settings_are_read_from_its_files(fake: FakeMachine) -> None:
    fake.write("proc/meminfo", "MemTotal:  1024 kB\nSwapTotal: 0 kB\nHugepagesize: 2048 kB\n"
               "HugePages_Total:      12\nHugePages_Free:        5")  # fmt: skip
    fake.write("proc/sys/vm/swappiness", "60")
    fake.write("proc/sys/fs/aio-max-nr", "65536")
    fake.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    fake.write(
        "proc/77/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             unlimited            unlimited            processes \n"
        "Max open files            1024                 524288               files     ",
    )
    fake.write("proc/77/status", "Name:\tpostgres\nUid:\t105\t105\t105\t105")
    fake.write("proc/1/cgroup", "0::/kubepods/pod1")
    found = read_host(77, machine=fake.machine, cores=4, size_of=lambda _path: 64)
    assert found == HostSettings(
        cores=4,
        memory_bytes=1024 * 1024,
        swap_bytes=0,
        sysctls={"vm.swappiness": 60, "fs.aio-max-nr": 65536},
        huge_page_bytes=2048 * 1024,
        huge_pages=12,
        transparent_huge_pages="madvise",
        shm_bytes=64,
        limits={"Max processes": UNLIMITED, "Max open files": 1024},
        postmaster_uid=105,
        remove_ipc=None,
        container="kubepods",
    )


def test_a_machine_without_files_gives_no_settings(fake: FakeMachine) -> None:
    def none(_path: str) -> int:
        raise OSError

    assert read_host(None, machine=fake.machine, cores=1, size_of=none) == HostSettings(cores=1)


@pytest.mark.parametrize(
    ("files", "removes"),
    [
        ({}, True),
        ({"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no"}, True),
        ({"etc/systemd/logind.conf": "[Login]\nRemoveIPC=no"}, False),
        ({"etc/systemd/logind.conf": "RemoveIPC=no",
          "etc/systemd/logind.conf.d/60-x.conf": "RemoveIPC = yes"}, True),
    ],
)  # fmt: skip
def test_what_systemd_removes_is_read_with_its_drop_ins(
    fake: FakeMachine, files: dict[str, str], removes: bool
) -> None:
    (fake.root / "run/systemd/system").mkdir(parents=True)
    for name, text in files.items():
        fake.write(name, text)
    assert read_host(None, machine=fake.machine, size_of=lambda _p: 0).remove_ipc is removes


def test_a_container_is_known_by_its_mark(fake: FakeMachine) -> None:
    fake.write(".dockerenv", "")
    assert read_host(None, machine=fake.machine, size_of=lambda _p: 0).container == "Docker"
