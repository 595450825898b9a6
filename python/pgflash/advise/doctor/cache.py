# SPDX-License-Identifier: PostgreSQL
"""Rules about pgflash itself: whether its cache works, and whether it brings anything."""

import functools
from collections.abc import Callable, Iterator

from pgflash.advise.doctor.lasting import set_parameter
from pgflash.advise.doctor.rules import SERVER, Rule, found, good, unknown
from pgflash.analyze.rules_flash import FASTER_MIN
from pgflash.model.doctor import CacheFacts, Diagnosis, DoctorFacts, Outcome
from pgflash.model.words import duration, listed, percent, size, things

CACHE = "flash cache"

_GUIDE = "docs/guide/flash-cache.md"
_VIEWS = "docs/reference/views.md"

#: Fewer reads than this tell nothing about a device.
READS_MIN = 1000


def _of_cache(rule: Callable[[CacheFacts], Iterator[Diagnosis]]) -> Rule:
    """Make a rule from a function of the cache's views; without them it yields nothing."""

    @functools.wraps(rule)
    def whole(facts: DoctorFacts) -> Iterator[Diagnosis]:
        if facts.cache is not None and _is_wanted(facts):
            yield from rule(facts.cache)

    return whole


def _is_wanted(facts: DoctorFacts) -> bool:
    return bool(facts.server.settings.get("pgflash.cache_file"))


def visible(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the extension's views can be read, if there is a cache."""
    if not _is_wanted(facts):
        return
    if facts.cache is None:
        yield unknown("cache-views", CACHE, f"The cache cannot be seen: {facts.why_no_cache}.")
    else:
        yield good("cache-views", CACHE, "The extension's views can be read.")


def versions(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the library in the server and the extension in the database match."""
    now = facts.versions
    if now is None or not now.is_loaded or not now.extension:
        return
    if now.fit and not now.remedy:
        yield good("versions", SERVER, f"The library and the extension are both {now.library}.")
        return
    if now.fit:
        reason = (
            "The cache works and snapshots are taken. But CREATE EXTENSION and ALTER EXTENSION "
            "can be refused."
        )
    else:
        reason = (
            "The cache works. But no snapshots are taken, and what has changed in between is an "
            "error."
        )
    yield found(
        "versions",
        Outcome.WARNING,
        SERVER,
        f"The library in the server is {now.library}, the extension in database {now.database} "
        f"{now.extension}, and the installed files are {now.installed}.",
        reason=reason,
        source="docs/guide/upgrade.md",
        commands=(f"-- {now.remedy}",),
    )


@_of_cache
def mode(cache: CacheFacts) -> Iterator[Diagnosis]:
    """Check whether the cache serves, and why not."""
    now, reason = cache.text("mode"), cache.text("mode_reason")
    if now == "serve":
        yield good("cache-mode", CACHE, "The cache serves.")
        return
    commands = ("SELECT pgflash_cache_set_mode('serve');",)
    yield found(
        "cache-mode",
        Outcome.WARNING,
        CACHE,
        f"The cache is in mode {now}: {reason}.",
        reason="Reads that flash could serve go to the disk.",
        source=f"{_GUIDE}, Modes",
        commands=commands if now == "passthrough" else ("-- remove the cause, then restart",),
    )


@_of_cache
def faults(cache: CacheFacts) -> Iterator[Diagnosis]:
    """Check what flash has returned."""
    differing, corrupt = cache.number("verify_mismatches"), cache.number("corrupt_slots")
    failed = cache.number("flash_read_errors") + cache.number("flash_write_errors")
    late, foreign = cache.number("read_timeouts"), cache.number("foreign_changes")
    if foreign:
        yield found(
            "cache-faults",
            Outcome.WARNING,
            CACHE,
            f"Data files were changed {things(foreign, 'time')} without this server's knowledge.",
            reason="Cached blocks of those files were dropped when it was noticed; before that, "
            "queries may have got them. Changed attributes alone are harmless.",
            source="docs/guide/what-if-it-fails.md",
            commands=("-- find the program by the files that the server's log names",),
        )
    if differing:
        yield found(
            "cache-faults",
            Outcome.CRITICAL,
            CACHE,
            f"{things(differing, 'block')} on flash differed from their file.",
            reason="This is a fault of pgflash or of a device, or another program writes data "
            "files. Hits that were not compared may have returned such blocks.",
            source=f"{_GUIDE}, Is it correct?",
            commands=("-- keep the server's log and the cache file, and report it",),
        )
    elif corrupt or failed:
        yield found(
            "cache-faults",
            Outcome.WARNING,
            CACHE,
            f"Flash returned {things(corrupt, 'damaged block')}; {things(failed, 'call')} failed, "
            f"and {things(late, 'read')} took too long.",
            reason="The disk served those reads. A device that goes on like this is failing.",
            source=f"{_VIEWS}, pgflash_cache_devices",
            commands=("SELECT * FROM pgflash_cache_devices;",),
        )
    elif late:
        yield found(
            "cache-faults",
            Outcome.NOTE,
            CACHE,
            f"{things(late, 'read')} of flash took too long since the server started.",
            reason="The disk served them, and the device was bypassed until it was quick again. "
            "Many of them come from a device that others use as well, or that is failing.",
            source=f"{_VIEWS}, pgflash_cache_devices",
            commands=("SELECT * FROM pgflash_cache_devices;",),
        )
    elif not foreign:
        yield good("cache-faults", CACHE, "No read or write of flash has failed.")


@_of_cache
def devices(cache: CacheFacts) -> Iterator[Diagnosis]:
    """Check whether every cache file is in use."""
    for device in cache.devices:
        name, state = str(device.get("cache_file")), str(device.get("state"))
        if state == "in use":
            yield good("cache-file", name, "It is in use.")
        else:
            yield found(
                "cache-file",
                Outcome.WARNING,
                name,
                f"It is {state}: {device.get('state_reason')}.",
                reason="Its share of the cache is read from disk.",
                source=f"{_VIEWS}, pgflash_cache_devices",
                commands=("SELECT * FROM pgflash_cache_devices;",),
            )


_WRITER = "pgflash writer"


def workers(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the library's workers run."""
    if facts.cache is None:
        return
    missing = set(facts.cache.missing_workers)
    if _is_wanted(facts) and facts.cache.cache.get("writer_running") is False:
        missing.add(_WRITER)
    what = CACHE if _is_wanted(facts) else SERVER
    if not missing:
        yield good("cache-workers", what, "The background workers run.")
        return
    now = int(facts.server.number("max_worker_processes") or 0)
    names = listed([f'"{name}"' for name in sorted(missing)])
    one = len(missing) == 1
    yield found(
        "cache-workers",
        Outcome.WARNING,
        what,
        f"The background {'worker' if one else 'workers'} {names} "
        f"{'is' if one else 'are'} not running.",
        reason=f"{'Nothing is put into the cache. ' if _WRITER in missing else ''}Usually "
        "max_worker_processes is too low: pgflash needs up to seven.",
        source=f"{_GUIDE}, Modes",
        commands=(
            "-- on standbys first: one that has less than its primary stops",
            *set_parameter("max_worker_processes", str(max(16, now + 8)), restart=True),
        ),
    )


@_of_cache
def page_cache(cache: CacheFacts) -> Iterator[Diagnosis]:
    """Check whether the kernel says what its page cache has."""
    way = cache.text("page_cache_check")
    if not way:
        return
    if way != "none":
        yield good("page-cache-check", CACHE, f"The page cache is asked by {way}.")
        return
    yield found(
        "page-cache-check",
        Outcome.WARNING,
        CACHE,
        "The kernel does not say what its page cache has: cachestat and mincore are forbidden.",
        reason="Flash is asked before the page cache, and takes in blocks that memory has as well. "
        "Container runtimes allow cachestat since January 2024.",
        source=f"{_VIEWS}, pgflash_cache",
        commands=("-- allow cachestat (or mincore) in the container's seccomp profile",),
    )


@_of_cache
def resize(cache: CacheFacts) -> Iterator[Diagnosis]:
    """Check whether the cache has the size that was asked for."""
    reason = cache.text("resize_reason")
    if not reason:
        yield good("cache-size", CACHE, f"Its size is {size(cache.number('size_bytes'))}.")
        return
    yield found(
        "cache-size",
        Outcome.WARNING,
        CACHE,
        f"Its size is {size(cache.number('size_bytes'))}, and not that of pgflash.cache_size: "
        f"{reason}.",
        reason="The setting has no effect.",
        source=f"{_GUIDE}, Changing the size",
        commands=("-- remove the cause, or set pgflash.cache_size to what fits",),
    )


@_of_cache
def benefit(cache: CacheFacts) -> Iterator[Diagnosis]:
    """Check whether the cache saves waiting, and why not."""
    row = cache.benefit
    if row is None:
        yield unknown("cache-benefit", CACHE, "What it saved is not known: accounting is off.")
        return
    finding = str(row.get("finding"))
    flash, disk = cache.reads("flash"), cache.reads("disk")
    if flash.calls < READS_MIN or disk.calls < READS_MIN:
        yield unknown("cache-benefit", CACHE, finding)
    elif disk.mean_s < FASTER_MIN * flash.mean_s:
        yield found(
            "cache-benefit",
            Outcome.WARNING,
            CACHE,
            f"Flash is no faster than the disk: {duration(flash.mean_s)} a read against "
            f"{duration(disk.mean_s)}.",
            reason="The cache costs memory and wear, and saves nothing.",
            source=f"{_GUIDE}, Is it helping?",
            commands=("pgflash devices", "pgflash devices probe DIRECTORY"),
        )
    else:
        yield good("cache-benefit", CACHE, finding)


@_of_cache
def budget(cache: CacheFacts) -> Iterator[Diagnosis]:
    """Check whether the day's write budget is used up."""
    left = cache.cache.get("write_budget_left_bytes")
    if left is None:
        return
    if cache.number("write_budget_left_bytes") > 0:
        yield good("cache-budget", CACHE, f"{size(float(str(left)))} of the write budget is left.")
        return
    yield found(
        "cache-budget",
        Outcome.NOTE,
        CACHE,
        "The write budget of the day is used up.",
        reason="Blocks that would be worth caching are read from disk until there is budget again.",
        source=f"{_GUIDE}, Wear",
        commands=("-- if the drives' warranty allows more, raise pgflash.write_budget",),
    )


def keep(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether kept relations fit into their share."""
    share_percent = facts.server.number("pgflash.keep_share")
    if facts.cache is None or share_percent is None or not _is_wanted(facts):
        return
    kept, slots = facts.cache.number("keep_blocks"), facts.cache.number("slots")
    if not slots:
        return
    share = kept / slots
    # At its share of the cache, keep reserves nothing more.
    if share < 0.98 * share_percent / 100:
        yield good("cache-keep", CACHE, f"Kept blocks take {percent(share)} of the cache.")
        return
    yield found(
        "cache-keep",
        Outcome.NOTE,
        CACHE,
        f"Kept blocks take {percent(share)} of the cache; pgflash.keep_share is "
        f"{percent(share_percent / 100)}.",
        reason="Beyond its share a kept block is treated as any other.",
        source=f"{_GUIDE}, keep and none",
        commands=("SELECT * FROM pgflash_cache_policy;",),
    )


def same_device(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether cache and data are on different devices."""
    for device in facts.devices:
        if "cache" not in device.parts:
            continue
        data = facts.device_of("data")
        shared = {disk.name for disk in device.disks} & {
            disk.name for disk in (data.disks if data is not None else ())
        }
        if "data" not in device.parts and not shared:
            yield good("cache-device", device.name, "It holds the cache, and not the data.")
            continue
        yield found(
            "cache-device",
            Outcome.WARNING,
            device.name,
            f"Cache and data are on the same {f'disk, {min(shared)}' if shared else 'device'}.",
            reason="A block from flash takes as long as one from disk, and both wait in one queue.",
            source=f"{_GUIDE}, What it does",
            commands=("-- name a file on another device in pgflash.cache_file, then restart",),
        )


def snapshots(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether snapshots are taken on schedule."""
    interval_s, age_s = facts.server.number("pgflash.snapshot_interval"), facts.snapshot_age_s
    if not interval_s or age_s is None:
        return
    # Between two snapshots there is one interval; a busy worker may be late.
    if age_s <= 3 * interval_s:
        yield good("snapshots", SERVER, f"The newest snapshot is {duration(age_s)} old.")
        return
    yield found(
        "snapshots",
        Outcome.WARNING,
        SERVER,
        f"The newest snapshot is {duration(age_s)} old; pgflash.snapshot_interval is "
        f"{duration(interval_s)}.",
        reason="Reports have nothing to report on.",
        source="docs/guide/repository.md",
        commands=("-- the server's log says why; or run: pgflash snapshot",),
    )


#: The rules about pgflash itself, which come first.
PGFLASH_RULES: tuple[Rule, ...] = (
    visible,
    versions,
    mode,
    faults,
    devices,
    workers,
    page_cache,
    resize,
    benefit,
    budget,
    keep,
    same_device,
    snapshots,
)
