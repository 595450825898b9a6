# SPDX-License-Identifier: PostgreSQL
"""Findings about the flash cache: its benefit and its faults."""

from collections.abc import Mapping

from pgflash.analyze.parts import DbTime
from pgflash.analyze.period import Period
from pgflash.analyze.rules import Weighed, finding
from pgflash.analyze.sections import number, total
from pgflash.model.awr import Severity
from pgflash.model.snapshot import Value
from pgflash.model.waits import FOREGROUND
from pgflash.model.words import count, duration, percent, things, times

#: Fewer look-ups than this tell nothing about a cache.
LOOKUPS_MIN = 1000
#: A cache that is less than so many times as fast as the disk brings no gain.
FASTER_MIN = 1.1


def wrong_blocks(period: Period, _found: DbTime) -> Weighed | None:
    """Say that flash returned wrong blocks."""
    cache = period.record("cache")
    if cache is None:
        return None
    differing = number(cache.get("verify_mismatches"))
    corrupt = number(cache.get("corrupt_slots"))
    if not differing and not corrupt:
        return None
    if differing:
        return finding(
            "flash-mismatches",
            Severity.CRITICAL,
            f"{things(differing, 'block')} from flash differed from the file.",
            f"{count(number(cache.get('verify_compared')))} blocks were compared",
            table="flash-cache",
            advice="Take the cache offline, keep the log and the cache file, and report this.",
            weight=1.0,
        )
    return finding(
        "flash-corruption",
        Severity.WARNING,
        f"{things(corrupt, 'block')} read from flash had a wrong checksum; none was served.",
        f"{count(number(cache.get('flash_reads')))} reads of the cache file",
        table="flash-cache",
        advice="Check the device.",
        weight=1.0,
    )


def device_trouble(period: Period, _found: DbTime) -> Weighed | None:
    """Say that a cache file failed, or answered too late."""
    cache = period.record("cache")
    if cache is None:
        return None
    names = (
        ("flash_read_errors", "failed read", "failed reads"),
        ("flash_write_errors", "failed write", "failed writes"),
        ("read_timeouts", "read beyond the deadline", "reads beyond the deadline"),
    )
    counted = ((number(cache.get(column)), one, many) for column, one, many in names)
    parts = [things(value, one, many) for value, one, many in counted if value > 0]
    if not parts:
        return None
    return finding(
        "flash-device",
        Severity.WARNING,
        f"The flash device had errors: {', '.join(parts)}. Queries read from disk instead.",
        table="flash-cache",
        advice="See pgflash_cache_devices and the kernel's log.",
        weight=0.5,
    )


def not_serving(period: Period, _found: DbTime) -> Weighed | None:
    """Say that there is a cache but it does not serve."""
    cache = period.record("cache")
    if cache is None or not cache.get("cache_file") or cache.get("mode") == "serve":
        return None
    return finding(
        "flash-not-serving",
        Severity.WARNING,
        f"At the end of the period the flash cache was in mode {cache.get('mode')}, which serves "
        "no reads.",
        str(cache.get("mode_reason") or ""),
        table="flash-cache",
        weight=0.9,
    )


def served(period: Period, _found: DbTime) -> Weighed | None:
    """Say what the cache brought, or that it brought nothing."""
    cache = period.record("cache")
    if cache is None or cache.get("mode") != "serve":
        return None
    hits, misses = number(cache.get("hits")), number(cache.get("misses"))
    if hits + misses < LOOKUPS_MIN:
        return None
    flash, disk = _reads(period, "flash"), _reads(period, "disk")
    disk_mean, basis = (disk[1] / disk[0], "") if disk else _mean_since_start(cache)
    share = hits / (hits + misses)
    said = f"The flash cache served {percent(share)} of the blocks that were looked up in it"
    looked_up = f"{count(hits)} hits, {count(misses)} misses"
    if flash is None or disk_mean is None:
        return finding(
            "flash-served", Severity.NOTE, f"{said}.", looked_up, table="flash-cache", weight=share
        )
    flash_calls, flash_s = flash
    flash_mean = flash_s / flash_calls
    if disk_mean < FASTER_MIN * flash_mean:
        return finding(
            "flash-slower",
            Severity.WARNING,
            f"{said}, but at {duration(flash_mean)} a read it was "
            f"{'hardly' if flash_mean < disk_mean else 'no'} faster than the disk "
            f"({duration(disk_mean)}{basis}).",
            looked_up,
            table="flash-cache",
            advice="A disk this fast may be answering from a cache of its own: compare the devices "
            "(pgflash devices).",
            weight=share,
        )
    saved_s = flash_calls * disk_mean - flash_s
    without_s = saved_s + sum(_seconds(period, one) for one in ("flash", "disk", "page cache"))
    return finding(
        "flash-served",
        Severity.GOOD,
        f"{said}: {duration(flash_mean)} a read against {duration(disk_mean)} from disk{basis}, "
        f"{times(disk_mean / flash_mean)} as fast.",
        looked_up,
        f"reads took {percent(saved_s / without_s)} less time than they would have without the "
        "cache, assuming that each hit replaced an average read from disk (modelled)",
        table="flash-cache",
        weight=share,
    )


def budget(period: Period, _found: DbTime) -> Weighed | None:
    """Say that the day's write budget kept blocks out of the cache."""
    cache = period.record("cache")
    skipped = number(cache.get("insert_skip_budget")) if cache else 0.0
    inserts = number(cache.get("inserts")) if cache else 0.0
    if skipped < LOOKUPS_MIN or skipped < 0.05 * (skipped + inserts):
        return None
    return finding(
        "flash-budget",
        Severity.NOTE,
        f"The write budget kept {things(skipped, 'block')} out of the flash cache, "
        f"{percent(skipped / (skipped + inserts))} of those that it would have taken in.",
        f"{things(inserts, 'block')} inserted",
        table="flash-cache",
        advice="Raise pgflash.write_budget if the drives' warranty allows more.",
        weight=0.1,
    )


def _mean_since_start(cache: Mapping[str, Value]) -> tuple[float | None, str]:
    """Return the mean time of a read from disk, where a period has too few of them."""
    mean_ms = number(cache.get("disk_read_mean_ms"))
    return (mean_ms / 1000 if mean_ms > 0 else None, " since the start")


def _reads(period: Period, source: str) -> tuple[float, float] | None:
    """Return calls and seconds of clients' data reads from a source; None if there were few.

    A file of snapshots may also say that they took no time; then nothing follows from it.
    """
    calls, seconds = total(_records(period, source), "calls"), _seconds(period, source)
    return (calls, seconds) if calls >= 100 and seconds > 0 else None


def _seconds(period: Period, source: str) -> float:
    return total(_records(period, source), "time_ms") / 1000


def _records(period: Period, source: str) -> list[dict[str, Value]]:
    return [
        r
        for r in period.records("io")
        if (r.get("file_class"), r.get("operation"), r.get("source")) == ("data", "read", source)
        and r.get("backend_type") in FOREGROUND
    ]


FLASH_RULES = (wrong_blocks, device_trouble, not_serving, served, budget)
