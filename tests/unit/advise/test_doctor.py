# SPDX-License-Identifier: PostgreSQL
"""The doctor's rules: each finds the fault that it is for, and says when it cannot know."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgflash.advise.doctor import HOST_RULES, OWN_RULES, PGFLASH_RULES, check, diagnose
from pgflash.advise.doctor.limits import AIO_PER_PROCESS
from pgflash.collect.host_settings import read_host
from pgflash.model.device import DepthPoint, DeviceFacts, DiskFacts, Link, Media, Probe
from pgflash.model.doctor import (
    UNLIMITED,
    CacheFacts,
    Checkpoints,
    Diagnosis,
    DoctorFacts,
    HostSettings,
    Node,
    Outcome,
    ServerSettings,
    TablespaceSettings,
)
from pgflash.model.standbys import Standbys
from pgflash.model.versions import Versions
from support.cluster import REPOSITORY
from support.machines import FakeMachine

GB = 2**30

LINK = Link(address="0000:01:00.0", lanes=4, lanes_max=4, speed=16, speed_max=16)
DISK = DiskFacts(
    name="nvme0n1",
    media=Media.FLASH,
    size_bytes=1000 * GB,
    logical_bytes=512,
    physical_bytes=512,
    write_cache="write through",
    link=LINK,
    wear=0.1,
    scheduler="none",
    schedulers=("none", "mq-deadline", "bfq"),
    queue_requests=1023,
    discards=True,
)
DEVICE = DeviceFacts(
    name="nvme0n1p1",
    mount_point="/pg",
    kernel_name="nvme0n1p1",
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
LIMITS = {"Max open files": 65536, "Max processes": UNLIMITED, "Max stack size": 8 * 2**20}
HOST = HostSettings(
    has_aio=True,
    cores=8,
    memory_bytes=16 * GB,
    available_bytes=8 * GB,
    swap_bytes=GB,
    committed_bytes=4 * GB,
    sysctls={
        "vm.swappiness": 1,
        "vm.dirty_ratio": 20,
        "vm.dirty_bytes": 0,
        "vm.dirty_background_ratio": 3,
        "vm.dirty_background_bytes": 0,
        "vm.dirty_expire_centisecs": 3000,
        "vm.dirty_writeback_centisecs": 500,
        "vm.zone_reclaim_mode": 0,
        "vm.overcommit_memory": 2,
        "vm.overcommit_ratio": 80,
        "vm.nr_hugepages": 2200,
        "kernel.shmmax": 2**63,
        "fs.aio-max-nr": 2**20,
        "fs.aio-nr": 0,
        "fs.file-max": 2**40,
        "net.core.somaxconn": 4096,
    },
    sysctl_lists={
        "net.ipv4.tcp_rmem": (4096, 131072, 6 * 2**20),
        "net.ipv4.tcp_wmem": (4096, 16384, 4 * 2**20),
        "net.ipv4.ip_local_port_range": (32768, 60999),
    },
    reserved_ports="",
    huge_page_bytes=2 * 2**20,
    huge_pages=2200,
    huge_pages_free=50,
    transparent_huge_pages="madvise",
    shm_bytes=8 * GB,
    limits=LIMITS,
    postmaster_uid=105,
    postmaster_user="postgres",
    programs="/usr/lib/postgresql/18/bin",
    unit="postgresql@18-main.service",
    fstab=frozenset({"/", "/pg", "/flash"}),
    remove_ipc=True,
)
SERVER = ServerSettings(
    version_num=180004,
    settings={
        "checkpoint_completion_target": "0.9",
        "checkpoint_timeout": "300",
        "data_checksums": "on",
        "data_directory": "/pg/18/main",
        "dynamic_shared_memory_type": "posix",
        "effective_io_concurrency": "200",
        "huge_pages": "try",
        "huge_pages_status": "on",
        "io_method": "worker",
        "io_workers": "3",
        "max_connections": "100",
        "max_files_per_process": "1000",
        "max_stack_depth": "2048",
        "max_wal_size": "1024",
        "max_wal_senders": "10",
        "max_worker_processes": "8",
        "pgflash.cache_file": "/flash/cache",
        "pgflash.cache_size": str(100 * GB // 8192),
        "pgflash.keep_share": "50",
        "pgflash.snapshot_interval": "600",
        "port": "5432",
        "random_page_cost": "1.1",
        "shared_buffers": str(4 * GB // 8192),
        "shared_memory_size": "4300",
        "shared_memory_size_in_huge_pages": "2150",
        "shared_memory_type": "mmap",
        "wal_init_zero": "on",
    },
    units={
        "max_stack_depth": "kB",
        "max_wal_size": "MB",
        "shared_buffers": "8kB",
        "shared_memory_size": "MB",
        "huge_page_size": "kB",
        "pgflash.cache_size": "8kB",
    },
    tablespaces=(TablespaceSettings(name="pg_default"),),
    checkpoints=Checkpoints(timed=100, requested=5, since_s=30_000, wal_bytes_s=2**20),
    remote_sessions=3,
)
CACHE_DEVICE = replace(
    DEVICE,
    name="nvme1n1p1",
    mount_point="/flash",
    parts=("cache",),
    disks=(replace(DISK, name="nvme1n1"),),
)
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
        "finding": "Reads took 49 % less time.",
    },
)
VERSIONS = Versions(
    command="0.2.0", kernel="", database="app", library="0.2", is_loaded=True,
    extension="0.2", installed="0.2",
)  # fmt: skip
SOUND = DoctorFacts(
    server=SERVER,
    host=HOST,
    devices=(DEVICE, CACHE_DEVICE),
    cache=CACHE,
    snapshot_age_s=300,
    versions=VERSIONS,
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


LOST = {"ephemeral": "nvme0n1 is of the model nvme_card"}
KEPT = Standbys(is_standby=False, names="ANY 1 (*)", commit="on", connected=1)


def on_lost_drive(standbys: Standbys | None) -> DoctorFacts:
    """Return a server whose data is on a drive that is empty after a stop."""
    return replace(device(**LOST), server=replace(SERVER, standbys=standbys))


def many(name: str, *values: int) -> DoctorFacts:
    return host(sysctl_lists={**HOST.sysctl_lists, name: values})


def nodes(*held: float, **sysctls: int) -> DoctorFacts:
    """Return facts with a node of 8 GB for each share that is held."""
    found = tuple(
        Node(name=f"node{number}", total_bytes=8 * GB, held_bytes=int(share * 8 * GB))
        for number, share in enumerate(held)
    )
    numa = {"kernel.numa_balancing": 0, **{f"kernel.{name}": one for name, one in sysctls.items()}}
    return host(nodes=found, sysctls={**HOST.sysctls, **numa})


def limited(name: str, value: float) -> DoctorFacts:
    return host(limits={**LIMITS, name: value})


def checkpoints(**changes: float) -> DoctorFacts:
    """Return facts with nine checkpoints of ten requested, an hour and 40 minutes long."""
    seen = Checkpoints(
        **{"timed": 10, "requested": 90, "since_s": 6000, "wal_bytes_s": 10 * 2**20, **changes}
    )
    return replace(SOUND, server=replace(SERVER, checkpoints=seen))


def small_buffers(overcommit: int = 0, **settings: str) -> DoctorFacts:
    """Return facts with 128 MB of 16 GB, where more is available."""
    sysctls = {**HOST.sysctls, "vm.overcommit_memory": overcommit}
    facts = server(18, shared_buffers="16384", **settings)
    return replace(facts, host=replace(HOST, sysctls=sysctls))


def ext4(**changes: Any) -> DoctorFacts:  # noqa: ANN401 - fields of a dataclass
    return device(file_system="ext4", **changes)


def turning(**changes: Any) -> DoctorFacts:  # noqa: ANN401 - fields of a dataclass
    """Return facts with everything on a rotating disk."""
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
    silent = {"sync-mount", "max-batch-time"}  # they have nothing to check here
    assert not silent & {one.rule for one in found}
    rules = len(PGFLASH_RULES) + len(HOST_RULES) + len(OWN_RULES)
    assert len({one.rule for one in found}) == rules - len(silent)
    assert {one.outcome for one in diagnose(turning())} == {Outcome.GOOD}
    assert [one.rule for one in check(SOUND)] == [one.rule for one in found][: len(PGFLASH_RULES)]


@pytest.mark.parametrize("standbys", [KEPT, replace(KEPT, is_standby=True, names="", connected=0)])
def test_a_drive_may_be_lost_whose_data_another_member_has(standbys: Standbys) -> None:
    (one,) = [one for one in diagnose(on_lost_drive(standbys)) if one.rule == "ephemeral-drive"]
    assert one.outcome is Outcome.GOOD
    assert "is empty after a stop" in one.sentence


#: The fault, the rule that finds it, its severity, and a word of the command that mends it.
FINDINGS: list[tuple[str, DoctorFacts, Outcome, str]] = [
    ("cache-mode", cache(mode="passthrough", mode_reason="set by a user"), Outcome.WARNING,
     "pgflash_cache_set_mode('serve')"),
    ("cache-mode", cache(mode="offline", mode_reason="no room"), Outcome.WARNING, "restart"),
    ("versions", replace(SOUND, versions=replace(VERSIONS, extension="0.1")), Outcome.WARNING,
     "ALTER EXTENSION pgflash UPDATE"),
    ("versions", replace(SOUND, versions=replace(VERSIONS, installed="0.3")), Outcome.WARNING,
     "Restart the server"),
    ("versions", replace(SOUND, versions=replace(VERSIONS, extension="0.3")), Outcome.WARNING,
     "Install pgflash 0.3"),
    ("cache-faults", cache(verify_mismatches=1), Outcome.CRITICAL, "report it"),
    ("cache-faults", cache(foreign_changes=2), Outcome.WARNING, "find the program"),
    ("cache-faults", cache(corrupt_slots=1, read_timeouts=1), Outcome.WARNING,
     "pgflash_cache_devices"),
    # Bypassed and back: nothing for a check that runs all day.
    ("cache-faults", cache(read_timeouts=1), Outcome.NOTE, "pgflash_cache_devices"),
    ("cache-file", replace(SOUND, cache=replace(CACHE, devices=(BYPASSED,))), Outcome.WARNING,
     "pgflash_cache_devices"),
    ("cache-workers", cache(writer_running=False), Outcome.WARNING, "max_worker_processes = 16"),
    ("cache-workers", replace(SOUND, cache=replace(CACHE, missing_workers=("pgflash sampler",))),
     Outcome.WARNING, "max_worker_processes = 16"),
    ("page-cache-check", cache(page_cache_check="none"), Outcome.WARNING, "seccomp profile"),
    ("cache-size", cache(resize_reason="the device is full"), Outcome.WARNING, "cache_size"),
    ("cache-benefit", saved(flash_read_ms=50_000.0), Outcome.WARNING, "pgflash devices"),
    ("cache-budget", cache(write_budget_left_bytes=0), Outcome.NOTE, "pgflash.write_budget"),
    ("cache-keep", cache(keep_blocks=500), Outcome.NOTE, "pgflash_cache_policy"),
    ("cache-device", device(parts=("data", "cache", "wal", "temp")), Outcome.WARNING,
     "pgflash.cache_file"),
    # Two partitions of a disk.
    ("cache-device", replace(SOUND, devices=(DEVICE, replace(CACHE_DEVICE, disks=(DISK,)))),
     Outcome.WARNING, "pgflash.cache_file"),
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
    ("read-ahead", device(read_ahead_bytes=0), Outcome.WARNING,
     "echo 1024 > /sys/block/nvme0n1/queue/read_ahead_kb"),
    ("read-ahead", turning(read_ahead_bytes=128 * 1024, kernel_name="dm-3", mapping="vg-data"),
     Outcome.NOTE, 'ENV{DM_NAME}=="vg-data", ATTR{queue/read_ahead_kb}="4096"'),
    ("read-ahead", device(read_ahead_bytes=64 * 2**20), Outcome.NOTE, "echo 1024 >"),
    ("write-cache", disk(own_write_cache="write back"), Outcome.CRITICAL,
     "echo 'write back' > /sys/block/nvme0n1/queue/write_cache"),
    ("sectors", device(alignment_bytes=2048, disks=(replace(DISK, physical_bytes=4096),)),
     Outcome.WARNING, "1MiB"),
    ("pcie-link", disk(link=replace(LINK, lanes=2)), Outcome.WARNING, "lspci -vv -s 0000:01:00.0"),
    ("pcie-link", disk(link=replace(LINK, lanes=3)), Outcome.NOTE, "lspci"),
    ("drive-wear", disk(wear=0.8), Outcome.NOTE, "pgflash place"),
    ("drive-wear", disk(wear=1.0), Outcome.WARNING, "pgflash place"),
    ("ephemeral-drive", on_lost_drive(replace(KEPT, names="")), Outcome.CRITICAL,
     "synchronous_standby_names"),
    ("ephemeral-drive", on_lost_drive(replace(KEPT, commit="remote_write")), Outcome.CRITICAL,
     "synchronous_commit"),
    ("ephemeral-drive", on_lost_drive(replace(KEPT, connected=0)), Outcome.CRITICAL,
     "pgflash place wal"),
    # A tenth of 1000 GB is to be free, and 40 are: the cache gives 60 back.
    ("over-provisioning", device(parts=("cache",), free_bytes=40 * GB), Outcome.NOTE,
     f"SET pgflash.cache_size = '{40 * 1024 - 1}MB'"),
    ("over-provisioning", device(parts=("cache",), free_bytes=40 * GB, mount_point="/mnt/a;id"),
     Outcome.NOTE, "fstrim '/mnt/a;id'"),
    ("discard", device(mount_options=("rw", "noatime", "discard")), Outcome.NOTE, "fstrim.timer"),
    ("noatime", device(mount_options=("rw",)), Outcome.WARNING, "remount,noatime /pg"),
    ("barriers", device(mount_options=("rw", "noatime", "nobarrier")), Outcome.CRITICAL,
     "remount,barrier /pg"),
    ("barriers", ext4(mount_options=("noatime", "barrier=0", "max_batch_time=0")),
     Outcome.CRITICAL, "remount,barrier=1 /pg"),
    ("sync-mount", device(mount_options=("rw", "sync", "noatime")), Outcome.WARNING, "async"),
    ("max-batch-time", ext4(), Outcome.NOTE, "remount,max_batch_time=0 /pg"),
    ("lasting", device(media=Media.MEMORY, file_system="tmpfs", disks=()), Outcome.CRITICAL,
     "data, wal, temp"),
    ("lasting", device(media=Media.UNKNOWN, file_system="overlay", disks=()), Outcome.CRITICAL,
     "--volume"),
    ("lasting", device(media=Media.NETWORK, file_system="nfs4", mount_options=("soft", "noatime")),
     Outcome.CRITICAL, "hard"),
    ("lasting",
     device(media=Media.NETWORK, file_system="nfs", mount_options=("softerr", "noatime")),
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
    ("dirty-expire", sysctl("vm.dirty_expire_centisecs", 6000), Outcome.NOTE,
     "vm.dirty_expire_centisecs=3000"),
    ("dirty-writeback", sysctl("vm.dirty_writeback_centisecs", 0), Outcome.WARNING,
     "vm.dirty_writeback_centisecs=500"),
    ("dirty-writeback", sysctl("vm.dirty_writeback_centisecs", 1500), Outcome.NOTE,
     "vm.dirty_writeback_centisecs=500"),
    ("shared-buffers", small_buffers(), Outcome.NOTE, "shared_buffers = '4096MB'"),
    # It stays in huge pages: 1.025 * 3968 MB and 64 MB more of them, less the 50 that are free.
    ("shared-buffers", small_buffers(), Outcome.NOTE, "vm.nr_hugepages=4216"),
    ("shared-buffers", server(shared_buffers=str(8 * GB // 8192)), Outcome.NOTE,
     "shared_buffers = '4096MB'"),
    # A container's quarter is that of its own memory.
    ("shared-buffers", host(memory_limit_bytes=8 * GB), Outcome.NOTE, "shared_buffers = '2048MB'"),
    ("zone-reclaim", sysctl("vm.zone_reclaim_mode", 1), Outcome.WARNING, "vm.zone_reclaim_mode=0"),
    ("numa-balancing", nodes(0.5, 0.5, numa_balancing=1), Outcome.NOTE, "kernel.numa_balancing=0"),
    ("numa-memory", nodes(0.9, 0.3), Outcome.WARNING, "NUMAPolicy=interleave"),
    ("tuned", host(tuned_profile="balanced", tuned_profiles=("balanced", "postgresql")),
     Outcome.NOTE, "tuned-adm profile postgresql"),
    ("connection-queue", sysctl("net.core.somaxconn", 64), Outcome.NOTE,
     "net.core.somaxconn=4096"),
    ("network-buffers", many("net.ipv4.tcp_wmem", 4096, 16384, 65536), Outcome.NOTE,
     "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'"),
    ("port-range", many("net.ipv4.ip_local_port_range", 1024, 65000), Outcome.WARNING,
     "net.ipv4.ip_local_reserved_ports=5432"),
    ("max-wal-size", checkpoints(), Outcome.WARNING, "max_wal_size = '12GB'"),
    ("max-wal-size", checkpoints(timed=200), Outcome.NOTE, "max_wal_size = '12GB'"),
    # It needs 2150 more than the 2200 that there are, of which 50 are free.
    ("huge-pages", server(huge_pages_status="off"), Outcome.NOTE, "vm.nr_hugepages=4300"),
    ("huge-pages", replace(server(huge_pages_status="off"),
                           host=replace(HOST, huge_pages_free=2200)), Outcome.NOTE,
     "ALTER SYSTEM SET huge_pages"),
    ("huge-pages", server(huge_pages_status="off", shared_memory_size="20000"), Outcome.WARNING,
     "huge_pages = try"),
    ("huge-pages", server(17, huge_pages_status=None, huge_pages="off"), Outcome.NOTE, "nr_huge"),
    ("transparent-huge-pages", host(transparent_huge_pages="always"), Outcome.NOTE, "madvise"),
    ("transparent-huge-pages", host(transparent_huge_pages="never"), Outcome.NOTE, "madvise"),
    ("overcommit", sysctl("vm.overcommit_memory", 0), Outcome.NOTE, "vm.overcommit_memory=2"),
    ("shared-memory", host(shm_bytes=64 * 2**20), Outcome.WARNING, "remount,size=1G /dev/shm"),
    ("shared-memory", host(shm_bytes=64 * 2**20, container="Docker"), Outcome.WARNING,
     "--shm-size"),
    ("system-v-memory",
     replace(server(shared_memory_type="sysv"),
             host=replace(HOST, sysctls={**HOST.sysctls, "kernel.shmmax": GB})),
     Outcome.WARNING, "kernel.shmmax"),
    ("remove-ipc", host(postmaster_uid=1000), Outcome.WARNING, "RemoveIPC=no"),
    ("open-files", limited("Max open files", 999), Outcome.NOTE, "LimitNOFILE=65536"),
    ("stack-limit", limited("Max stack size", 2 * 2**20), Outcome.WARNING, "LimitSTACK=8388608"),
    ("stack-limit", server(max_stack_depth="1024"), Outcome.NOTE, "max_stack_depth = '2MB'"),
    ("stack-limit",
     replace(server(max_stack_depth="1024"),
             host=replace(HOST, limits={**LIMITS, "Max stack size": 2 * 2**20})),
     Outcome.NOTE, "LimitSTACK=8388608"),
    ("file-max", sysctl("fs.file-max", 100_000), Outcome.NOTE, "fs.file-max=6815744"),
    ("processes", limited("Max processes", 100), Outcome.WARNING, "LimitNPROC=16384"),
    ("aio-max-nr", sysctl("fs.aio-max-nr", 4000), Outcome.WARNING, "fs.aio-max-nr=1048576"),
    ("aio", host(has_aio=False), Outcome.WARNING, "io_setup"),
    ("shared-memory", host(shm_bytes=64 * 2**20, container="Kubernetes"), Outcome.WARNING,
     "medium: Memory"),
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
    ("io-workers", replace(server(19, io_workers=None, io_min_workers="2", io_max_workers="8"),
                           host=replace(HOST, cores=64)),
     Outcome.NOTE, "io_max_workers = 16"),
    ("wal-init-zero", device(file_system="btrfs"), Outcome.NOTE, "wal_recycle = off"),
    ("wal-init-zero", server(wal_init_zero="off"), Outcome.NOTE, "wal_init_zero = on"),
    ("checksums", server(data_checksums="off"), Outcome.WARNING, "pg_checksums --enable"),
    ("publications", replace(SOUND, server=replace(SERVER, publications=("all",))), Outcome.NOTE,
     "CREATE EXTENSION pgflash"),
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


#: Commands whose effect is lost when the machine restarts, and the files that keep it.
PASSING = re.compile(r"> /(sys|proc)/|sysctl -w|mount -o remount")
KEEPS = re.compile(r"/etc/(sysctl\.d|tmpfiles\.d|udev/rules\.d|fstab|nfs\.conf)")


@pytest.mark.parametrize(
    "facts", [one[1] for one in FINDINGS], ids=[f"{one[0]}-{one[2]}" for one in FINDINGS]
)
def test_commands_last_and_are_commands(facts: DoctorFacts) -> None:
    for one in diagnose(facts):
        passing = [command for command in one.commands if PASSING.search(command)]
        assert len(passing) <= len([one for one in one.commands if KEEPS.search(one)])
        for command in one.commands:
            if command.startswith("# "):
                continue
            assert not re.search(r"mklabel|mkpart|mkfs|nvme format|DEVICE|_DIRECTORY\b", command)
            if not re.match(r"-- |[A-Z]{2,} ", command):  # else it is the server that reads it
                subprocess.run(["bash", "-n", "-c", command], check=True)


#: Consequences: a container's layer has no disk that could be examined.
ALONG = {
    "lasting": {
        "random-page-cost", "effective-io-concurrency", "scheduler", "queue-depth", "read-ahead",
    },
    "over-provisioning": {"wal-init-zero", "random-page-cost", "effective-io-concurrency"},
    "scheduler": {"queue-depth"},
    "sectors": {"alignment"},
    "shared-buffers": {"overcommit"},
    "dirty-background": {"shared-buffers"},
    "effective-io-concurrency": {"io-workers"},
}  # fmt: skip


TWO_NODES = 2 * (Node(name="node0", total_bytes=GB, held_bytes=0),)

UNKNOWN: list[tuple[str, DoctorFacts]] = [
    ("alignment", device(alignment_bytes=None, unknown={"alignment_bytes": "nobody tells"})),
    ("scheduler", disk(scheduler="")),
    ("queue-depth", disk(queue_requests=None)),
    ("read-ahead", device(read_ahead_bytes=None)),
    ("over-provisioning", device(parts=("cache",), free_bytes=None)),
    # A mirror of two has one half of its disks' size.
    (
        "over-provisioning",
        device(parts=("cache",), free_bytes=40 * GB, disks=(DISK, replace(DISK, name="nvme9n1"))),
    ),
    ("swappiness", host(sysctls={})),
    ("dirty-background", host(memory_bytes=None)),
    ("dirty-ratio", host(sysctls={})),
    ("huge-pages", server(shared_memory_size=None, shared_buffers=None)),
    ("huge-pages", server(16, huge_pages_status=None)),
    ("transparent-huge-pages", host(transparent_huge_pages="")),
    ("cache-views", replace(SOUND, cache=None, why_no_cache="it is not here")),
    ("overcommit", host(sysctls={})),
    ("cache-benefit", saved(disk_reads=10)),
    ("cache-benefit", replace(SOUND, cache=replace(CACHE, benefit=None))),
    ("shared-memory", host(shm_bytes=None)),
    ("remove-ipc", host(postmaster_uid=None)),
    ("open-files", host(limits={})),
    ("stack-limit", host(limits={})),
    ("write-cache", disk(write_cache="")),
    ("sectors", disk(physical_bytes=None)),
    ("pcie-link", disk(link=None)),
    ("drive-wear", disk(wear=None)),
    ("ephemeral-drive", on_lost_drive(None)),
    ("ephemeral-drive", on_lost_drive(replace(KEPT, connected=None))),
    ("dirty-expire", host(sysctls={})),
    ("dirty-writeback", host(sysctls={})),
    ("shared-buffers", server(shared_buffers=None)),
    ("numa-balancing", replace(nodes(0.5, 0.5), host=replace(HOST, nodes=TWO_NODES))),
    ("connection-queue", host(sysctls={})),
    ("network-buffers", replace(SOUND, server=replace(SERVER, remote_sessions=None))),
    ("network-buffers", host(sysctl_lists={})),
    ("port-range", host(sysctl_lists={})),
    ("max-wal-size", replace(SOUND, server=replace(SERVER, checkpoints=None))),
    ("file-max", host(sysctls={})),
    ("processes", host(limits={})),
    ("aio-max-nr", host(sysctls={})),
    ("aio", host(has_aio=None)),
    ("random-page-cost", device(media=Media.UNKNOWN)),
    ("random-page-cost", replace(SOUND, devices=())),
    ("effective-io-concurrency", device(media=Media.UNKNOWN)),
    ("io-method", server(io_method=None)),
    ("io-workers", server(io_workers=None)),
    ("io-workers", server(19, io_max_workers=None)),
    ("wal-init-zero", replace(SOUND, devices=())),
    ("checksums", server(data_checksums=None)),
]


@pytest.mark.parametrize(("rule", "facts"), UNKNOWN, ids=[one[0] for one in UNKNOWN])
def test_a_rule_that_cannot_know_says_so(rule: str, facts: DoctorFacts) -> None:
    assert {one.outcome for one in of(facts, rule)} - {Outcome.GOOD} == {Outcome.UNKNOWN}


def test_small_caches_and_those_in_the_servers_memory_need_no_transparent_huge_pages() -> None:
    for settings in (
        {"pgflash__cache_size": str(GB // 8192)},
        {"pgflash__cache_file": ""},
        {"pgflash__warm_restart": "off"},
    ):
        facts = replace(server(18, **settings), host=replace(HOST, transparent_huge_pages="never"))
        assert {one.outcome for one in of(facts, "transparent-huge-pages")} == {Outcome.GOOD}


def test_every_rule_has_a_finding_above() -> None:
    rules = {one.rule for one in diagnose(SOUND)} | {"sync-mount", "max-batch-time"}
    # Views exist, or nothing is known.
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


@pytest.mark.parametrize(
    "facts",
    [
        small_buffers(overcommit=2),
        small_buffers(huge_pages="on"),
        small_buffers(shared_memory_type="sysv"),
        replace(small_buffers(), host=replace(HOST, available_bytes=GB)),
        # It uses huge pages, perhaps, and there is no room for as many as it would need.
        replace(
            small_buffers(huge_pages_status="unknown"),
            host=replace(HOST, huge_pages_free=0, available_bytes=3968 * 2**20),
        ),
    ],
)
def test_more_shared_buffers_are_advised_only_where_the_server_starts_with_them(
    facts: DoctorFacts,
) -> None:
    (one,) = of(facts, "shared-buffers")
    assert one.outcome is Outcome.NOTE
    assert one.commands == ()


@pytest.mark.parametrize(
    ("free_bytes", "wanted"),
    # Twice 10 MB/s for five minutes, and what is spread over 90 % of the next: 11.1 GB.
    [(500 * GB, "12GB"), (10 * GB, "6GB"), (GB, None), (None, None)],
)
def test_wal_takes_half_of_the_free_space_at_most(
    free_bytes: int | None, wanted: str | None
) -> None:
    facts = replace(checkpoints(), devices=(replace(DEVICE, free_bytes=free_bytes), CACHE_DEVICE))
    (one,) = of(facts, "max-wal-size")
    assert one.outcome is Outcome.WARNING
    assert one.commands[:1] == (
        () if wanted is None else (f"ALTER SYSTEM SET max_wal_size = '{wanted}';",)
    )


@pytest.mark.parametrize(
    "facts",
    [
        checkpoints(timed=0, requested=9),
        # 90 of 100, and WAL reached its limit of 1 GB / 1.9 nine times: 0.8 MB/s in 6000 s.
        checkpoints(wal_bytes_s=0.8 * 2**20),
    ],
)
def test_checkpoints_on_request_without_much_wal_are_backups_and_people(
    facts: DoctorFacts,
) -> None:
    assert of(facts, "max-wal-size")[0].outcome is Outcome.GOOD


def test_huge_pages_are_for_the_shared_buffers_that_are_advised() -> None:
    """Without room for them nothing is reserved: nobody could use what the kernel finds."""
    facts = small_buffers(huge_pages_status="off")
    assert facts.host is not None
    facts = replace(facts, host=replace(facts.host, available_bytes=12 * GB))
    (one,) = of(facts, "huge-pages")
    # As many as the server says for 128 MB, and for 3968 MB more, less the 50 that are free.
    assert one.commands[0] == f"sysctl -w vm.nr_hugepages={2200 + 2150 + 2066 - 50}"
    assert of(facts, "shared-buffers")[0].commands[0].startswith("ALTER SYSTEM")


@pytest.mark.parametrize(
    "facts",
    [
        # 4.2 GB of 4.4 that are available: the rest would be too little for what runs.
        replace(server(huge_pages_status="off"), host=replace(HOST, available_bytes=4500 * 2**20)),
        # Without overcommitting, 80 % of what is left may be promised: 6.1 GB and swap.
        replace(server(huge_pages_status="off"), host=replace(HOST, committed_bytes=7 * GB)),
        server(huge_pages_status="off", huge_page_size=str(2**20)),
    ],
)
def test_huge_pages_are_reserved_only_where_the_kernel_has_them(facts: DoctorFacts) -> None:
    """It would make fewer, or none for the server, and nobody could use their memory."""
    (one,) = of(facts, "huge-pages")
    assert one.outcome is Outcome.NOTE
    assert one.commands == ()
    assert "when the machine starts" in one.reason


def test_a_standbys_settings_that_confirm_commits_already_stay() -> None:
    def commands(standbys: Standbys) -> str:
        return "\n".join(of(on_lost_drive(standbys), "ephemeral-drive")[0].commands)

    none = commands(replace(KEPT, names="", commit="remote_apply"))
    assert "without one every commit then waits" in none.splitlines()[0]
    assert "synchronous_commit" not in none
    away = commands(replace(KEPT, names="FIRST 1 (a, b)", connected=0))
    assert "ALTER SYSTEM" not in away
    assert away.startswith("-- start a standby that synchronous_standby_names includes")
    for connected in (1, None):
        local = commands(replace(KEPT, commit="local", connected=connected))
        assert "standby_names" not in local
        assert "synchronous_commit" in local


def test_a_standbys_tablespaces_are_altered_on_its_primary() -> None:
    standby = replace(KEPT, is_standby=True)
    primary = "-- on the primary, for all members: ALTER TABLESPACE"
    other = TablespaceSettings(name="other")
    for options, others, command in (
        ({}, (), "ALTER SYSTEM SET random_page_cost = 1.1;"),
        ({"random_page_cost": "4"}, (), primary),
        # What is set for the server would be the other's, too.
        ({}, (other,), primary),
    ):
        spaces = (TablespaceSettings(name="pg_default", options=options), *others)
        settings = {**SERVER.settings, "random_page_cost": "4"}
        own = replace(SERVER, settings=settings, standbys=standby, tablespaces=spaces)
        one = of(replace(SOUND, server=own), "random-page-cost")[0]
        assert one.subject == "pg_default"
        assert one.commands[0].startswith(command)


@pytest.mark.parametrize("reserved", ["5432", "80,5000-6000", "5430-5432"])
def test_a_reserved_port_is_given_to_nobody_and_others_stay_reserved(reserved: str) -> None:
    facts = many("net.ipv4.ip_local_port_range", 1024, 65000)
    assert facts.host is not None
    kept = replace(facts, host=replace(facts.host, reserved_ports="80,90-99"))
    assert "reserved_ports=80,90-99,5432" in of(kept, "port-range")[0].commands[0]
    safe = replace(facts, host=replace(facts.host, reserved_ports=reserved))
    assert of(safe, "port-range")[0].outcome is Outcome.GOOD


def test_buffers_of_the_network_are_not_judged_where_nobody_is_remote() -> None:
    facts = many("net.ipv4.tcp_wmem", 4096, 16384, 65536)
    here = replace(facts, server=replace(SERVER, remote_sessions=0))
    assert of(here, "network-buffers")[0].outcome is Outcome.GOOD


def test_checksums_are_enabled_in_the_servers_own_folder_by_its_own_program() -> None:
    facts = server(data_checksums="off", data_directory="/pg/my data")
    commands = of(facts, "checksums")[0].commands
    assert commands[-1] == (
        "/usr/lib/postgresql/18/bin/pg_checksums --enable --progress -D '/pg/my data'"
    )
    assert "systemctl stop postgresql@18-main.service" in commands[0]
    assert "cold" in commands[1]
    hidden = of(server(data_checksums="off", data_directory=None), "checksums")[0].commands
    assert hidden[0].startswith("-- SHOW data_directory")


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


def test_a_pool_of_io_workers_is_judged_by_what_it_may_grow_to() -> None:
    facts = server(19, io_workers=None, io_min_workers="2", io_max_workers="8")
    (judged,) = of(facts, "io-workers")
    assert judged.outcome is Outcome.GOOD
    assert judged.sentence.startswith("2 to 8 workers read for ")


def test_without_the_machine_only_the_server_is_checked_and_it_is_said() -> None:
    found = diagnose(DoctorFacts(server=SERVER, host=None, why_no_host="it is elsewhere"))
    (machine,) = [one for one in found if one.rule == "machine"]
    assert machine.outcome is Outcome.UNKNOWN
    assert "it is elsewhere" in machine.sentence
    assert {one.rule for one in found} == {
        "cache-views", "machine", "checksums", "io-method", "wal-init-zero", "random-page-cost",
        "effective-io-concurrency", "max-wal-size", "publications",
    }  # fmt: skip


def test_the_worst_stands_first_and_a_disk_of_two_devices_is_checked_once() -> None:
    second = replace(DEVICE, name="p2", mount_point="/two", parts=("archive",))
    facts = replace(SOUND, devices=(DEVICE, replace(second, mount_options=("nobarrier",))))
    found = diagnose(facts)
    places = [list(Outcome).index(one.outcome) for one in found]
    assert places == sorted(places)
    assert len([one for one in found if one.rule == "scheduler"]) == 1
    # An archive can be written again, so its barriers do not matter.
    assert {one.subject for one in found if one.rule == "barriers"} == {"/pg"}


@pytest.mark.parametrize(
    ("differing", "why"),
    [
        (
            replace(VERSIONS, installed="0.3"),
            "snapshots are taken. But CREATE EXTENSION and ALTER EXTENSION",
        ),
        (replace(VERSIONS, extension="0.1"), "no snapshots are taken"),
        (replace(VERSIONS, extension="0.3"), "no snapshots are taken"),
    ],
)
def test_snapshots_stop_only_where_the_library_and_the_extension_differ(
    differing: Versions, why: str
) -> None:
    (one,) = of(replace(SOUND, versions=differing), "versions")
    assert why in one.reason
    assert ("no snapshots" in one.reason) is ("no snapshots" in why)


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
               "HugePages_Total:      12\nHugePages_Free:        5\n"
               "HugePages_Rsvd:        2")  # fmt: skip
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
        huge_pages_free=3,
        transparent_huge_pages="madvise",
        shm_bytes=64,
        limits={"Max processes": UNLIMITED, "Max open files": 1024},
        postmaster_uid=105,
        remove_ipc=None,
        container="kubepods",
    )


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        (".dockerenv", "", "Docker"),
        ("run/.containerenv", 'engine="podman"', "Podman"),
        ("var/run/secrets/kubernetes.io/serviceaccount/namespace", "default", "Kubernetes"),
        ("run/systemd/container", "systemd-nspawn", "systemd-nspawn"),
        ("run/host/container-manager", "lxc", "lxc"),
        ("proc/1/cgroup", "0::/system.slice/docker-0123.scope", "docker"),
        ("proc/1/cgroup", "0::/init.scope", ""),
    ],
)
def test_a_container_is_known_by_what_its_manager_leaves(
    fake: FakeMachine, name: str, text: str, kind: str
) -> None:
    fake.write(name, text)
    assert read_host(None, machine=fake.machine, size_of=lambda _path: 0).container == kind


def test_the_servers_unit_user_programs_and_memory_are_those_of_its_process(
    fake: FakeMachine,
) -> None:
    group = "/system.slice/system-postgresql.slice/postgresql@15-main.service"
    fake.write("proc/77/cgroup", f"0::{group}")
    fake.write("proc/77/status", "Name:\tpostgres\nUid:\t105\t105\t105\t105")
    fake.write("etc/passwd", "root:x:0:0::/root:/bin/sh\npostgres:x:105:113::/nowhere:/bin/sh")
    (fake.root / "proc/77/exe").symlink_to("/usr/lib/postgresql/15/bin/postgres")
    fake.mount("0:28", "/sys/fs/cgroup", "cgroup2", "cgroup2")
    fake.write(f"sys/fs/cgroup{group}/memory.max", str(4 * GB))
    found = read_host(77, machine=fake.machine, size_of=lambda _path: 0)
    assert (found.unit, found.postmaster_user) == ("postgresql@15-main.service", "postgres")
    assert found.programs == "/usr/lib/postgresql/15/bin"
    assert found.memory_limit_bytes == 4 * GB


@pytest.mark.parametrize(
    "group",
    ["0::/", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/pg.service",
     "0::/docker/0123abc", "0::/system.slice/docker-0123.scope"],
)  # fmt: skip
def test_a_server_that_no_unit_of_the_system_started_has_none(
    fake: FakeMachine, group: str
) -> None:
    fake.write("proc/77/cgroup", group)
    assert read_host(77, machine=fake.machine, size_of=lambda _path: 0).unit == ""


def test_nodes_of_memory_the_network_and_mounts_are_read(fake: FakeMachine) -> None:
    fake.write("proc/meminfo", "MemTotal: 2048 kB\nMemAvailable: 512 kB\nHugepagesize: 64 kB")
    for number, (anonymous, huge) in enumerate(((100, 4), (10, 0))):
        node = f"Node {number} "
        fake.write(
            f"sys/devices/system/node/node{number}/meminfo",
            f"{node}MemTotal:  1024 kB\n{node}FilePages: 500 kB\n{node}AnonPages: {anonymous} kB\n"
            f"{node}Shmem: 20 kB\n{node}HugePages_Total: {huge}",
        )
    fake.write("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304")
    fake.write("proc/sys/net/ipv4/ip_local_reserved_ports", "")
    fake.write("etc/fstab", "# a note\n/dev/sda1 / ext4 defaults 0 1\n/x /my\\040data xfs rw\n")
    found = read_host(None, machine=fake.machine, size_of=lambda _path: 0)
    assert found.available_bytes == 512 * 1024
    assert [(one.name, one.held_bytes // 1024) for one in found.nodes] == [
        ("node0", 100 + 20 + 4 * 64), ("node1", 10 + 20),
    ]  # fmt: skip
    assert found.sysctl_lists == {"net.ipv4.tcp_wmem": (4096, 16384, 4194304)}
    assert found.reserved_ports == ""
    assert found.fstab == {"/", "/my data"}


def test_tuneds_profile_counts_while_tuned_runs(fake: FakeMachine) -> None:
    fake.write("etc/tuned/active_profile", "balanced")
    fake.write("usr/lib/tuned/postgresql/tuned.conf", "")
    fake.write("usr/lib/tuned/functions", "")
    stopped = read_host(None, machine=fake.machine, size_of=lambda _path: 0)
    fake.write("run/tuned/tuned.pid", "99")
    running = read_host(None, machine=fake.machine, size_of=lambda _path: 0)
    assert (stopped.tuned_profile, running.tuned_profile) == ("", "balanced")
    assert running.tuned_profiles == ("postgresql",)


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
