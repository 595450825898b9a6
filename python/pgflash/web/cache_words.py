# SPDX-License-Identifier: PostgreSQL
"""The figures and tables of the flash cache's page, from the answer of /live/cache.

Bytes are shown as sizes, shares in percent; a column that this version of the extension lacks is
left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from pgflash.analyze.grid import row, text
from pgflash.live.tables import number
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.words import NOTHING, count, duration, percent, size
from pgflash.report.colours import DISK
from pgflash.report.printed import PrintedTable, print_table

Row = Mapping[str, Any]

RELATIONS_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The miss-ratio curve: a sentence, its table, and the data for the script."""

    sentence: str
    table: PrintedTable
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The benefit of the cache: the figures at the top of the page, and a sentence a period."""

    #: Title, figure, and its explanation.
    figures: tuple[tuple[str, str, str], ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The rest of a day's write budget, as a share and in words."""

    left: float
    words: str


def outcome(view: Row) -> Outcome:
    """Return the benefit of the cache in the last hour."""
    cache, benefit = view["cache"], view.get("benefit") or ()
    hour: Row = next((one for one in benefit if one["period"] == "hour"), {})
    hits, misses = cache.get("hits"), cache.get("misses")
    looked_up = f"{count(hits)} of {count((hits or 0) + (misses or 0))} blocks, since the start"
    # A sentence that is true of several periods is printed for the shortest.
    findings = {one["finding"]: one["period"] for one in reversed(benefit) if one.get("finding")}
    return Outcome(
        figures=(
            ("Hit ratio", percent(cache.get("hit_ratio")), looked_up),
            ("A read from flash", _mean(hour, "flash"), "mean of the last hour"),
            ("A read from disk", _mean(hour, "disk"), "mean of the last hour"),
            ("Read time saved", *_saved(hour)),
        ),
        sentences=tuple(
            f"{_PERIODS[period]}: {finding}"
            for finding, period in reversed(findings.items())
            if period in _PERIODS
        ),
    )


def _saved(hour: Row) -> tuple[str, str]:
    """Return the share of read time that was saved; none if flash is slower than the disk.

    The time itself says less, since the same work without the cache would have taken longer.
    """
    share = hour.get("saved_share")
    if share is None or share <= 0:
        return NOTHING if share is None else "none", "in the last hour, modelled"
    return percent(share), "of the last hour's read time, modelled"


_PERIODS = {"hour": "In the last hour", "day": "In the last day", "start": "Since the start"}


def _mean(row: Row, source: str) -> str:
    """Return the mean time of a period's reads from a source."""
    reads, time_ms = row.get(f"{source}_reads"), row.get(f"{source}_read_ms")
    return duration(time_ms / reads / 1000) if reads and time_ms is not None else NOTHING


def facts(cache: Row) -> list[tuple[str, str]]:
    """Return the description of the cache and its contents since the server started."""
    found: list[tuple[str, str]] = [
        ("Cache files", str(cache.get("cache_file") or NOTHING)),
        ("Began", str(cache.get("start_reason") or NOTHING)),
        ("Size", f"{size(cache.get('used_bytes'))} used of {size(cache.get('size_bytes'))}"),
        ("Hits", count(cache.get("hits"))),
        ("Misses", count(cache.get("misses"))),
        ("Left to the page cache", count(cache.get("page_cache_reads"))),
        ("Blocks put in", count(cache.get("inserts"))),
        ("Written to flash", size(cache.get("flash_write_bytes"))),
        ("Written in 24 hours", size(cache.get("flash_write_bytes_day"))),
    ]
    if cache.get("resize_progress") is not None:
        found.insert(3, ("Size is changing", percent(cache["resize_progress"])))
    if cache.get("resize_reason"):
        found.insert(3, ("Size does not change", str(cache["resize_reason"])))
    if cache.get("writer_running") is False:
        found.insert(0, ("Writer", "is not running: no blocks are added"))
    for name, title in (
        ("verify_mismatches", "Blocks that differed from their file"),
        ("foreign_changes", "Changes of data files by others"),
        ("corrupt_slots", "Blocks with a wrong checksum"),
        ("flash_read_errors", "Failed reads of flash"),
        ("flash_write_errors", "Failed writes of flash"),
        ("read_timeouts", "Reads of flash given up"),
    ):
        if cache.get(name):
            found.append((title, count(cache[name])))
    return found


def budget(row: Row) -> Budget:
    """Return the rest of the day's write budget."""
    day, left = float(row["day_bytes"]), float(row["left_bytes"])
    share = min(max(left / day, 0.0), 1.0) if day > 0 else 0.0
    return Budget(
        left=share, words=f"{size(max(left, 0.0))} left of {size(day)} ({percent(share)})"
    )


def curve(view: Row) -> Curve:
    """Return the miss-ratio curve with the current size marked."""
    rows = [row for row in view["advice"] if row.get("hit_ratio") is not None]
    present = view.get("present_bytes")
    points = [
        {
            "size": float(row["size_bytes"]),
            "miss": 100 * (1 - float(row["hit_ratio"])),
            "present": row.get("size_factor") == 1,
        }
        for row in rows
    ]
    data = {
        "sizes": [one["size"] for one in points],
        "labels": [size(float(one["size"])) for one in points],
        "ratios": [one["miss"] for one in points],
        "present": present,
        "colour": DISK,
    }
    table = ReportTable(
        id="miss-ratios",
        title="Miss ratio by size",
        columns=(
            text("size", "Size"),
            number("miss_ratio", "Miss ratio", Unit.SHARE),
            number("disk_reads", "Disk reads/s", Unit.PER_SECOND),
            number("saved", "Read time saved", Unit.SHARE),
        ),
        rows=tuple(
            row(
                f"{size(float(one['size_bytes']))}{_is_present(one, present)}",
                1 - float(one["hit_ratio"]),
                one.get("disk_reads_per_s"),
                _share_saved(one),
            )
            for one in rows
        ),
        note="Read time saved is a share of the time of these reads without a flash cache.",
    )
    said = "The cache has not been used yet." if not points else _advice(rows, present)
    return Curve(sentence=said, table=print_table(table), data=msgspec.json.encode(data).decode())


def _share_saved(row: Row) -> float | None:
    """Return the share that a size saves of the time of reading blocks that are not in memory.

    The view's milliseconds per second are not shown: they grow with the number of sessions, so a
    reader cannot tell whether they are plausible.
    """
    flash_ms, disk_ms = row.get("flash_read_mean_ms"), row.get("disk_read_mean_ms")
    if flash_ms is None or not disk_ms:
        return None
    return float(row["hit_ratio"]) * (1 - float(flash_ms) / float(disk_ms))


#: A larger cache is not worth its flash if its miss ratio is lower by no more than this.
_WORTH_IT = 0.01


def _is_present(row: Row, present: float | None) -> str:
    return " (present size)" if present is not None and row.get("size_factor") == 1 else ""


def _advice(rows: Sequence[Row], present: float | None) -> str:
    now = next((row for row in rows if row.get("size_factor") == 1), None)
    twice = next((row for row in rows if row.get("size_factor") == 2), None)
    if present is None or now is None or twice is None:
        return "Misses that a flash cache of each size would have had in the last hours."
    misses, twice_misses = 1 - float(now["hit_ratio"]), 1 - float(twice["hit_ratio"])
    if misses - twice_misses < _WORTH_IT:
        return (
            f"With its {size(present)} the cache misses {percent(misses)} of what is asked for; "
            "twice as much would bring nothing."
        )
    return (
        f"With its {size(present)} the cache misses {percent(misses)} of what is asked for; with "
        f"twice as much it would miss {percent(twice_misses)}."
    )


_EVICTIONS = {
    "invalidated": "invalidated: the block changed",
    "aged_out": "aged out: made room for another",
    "buffer_pinned": "kept because it was in use",
}
_SKIPS = {
    "not_current": "its file was dropped or truncated, or the mode changed",
    "writer_overloaded": "the writer was overloaded",
    "exists": "it was already cached",
    "not_useful": "the blocks already there are more useful",
    "modification": "it changed since it was read",
    "corrupt": "it could not be written completely",
    "budget": "the write budget was used up",
    "device": "its cache file is bypassed or out of use",
    "invalid": "the disk returned an invalid page (checksum or header)",
}


_ERRORS = ("read_errors", "write_errors", "read_timeouts", "corrupt_slots")


def tables(view: Row) -> list[PrintedTable]:
    """Return the tables of evictions, blocks not admitted, devices, relations and policies."""
    every, top = int(view.get("relations_all") or 0), view["relations"][:RELATIONS_SHOWN]
    note = f"The {len(top)} with most cached blocks, of {count(every)}." if every > len(top) else ""
    return [
        print_table(_counts("evictions", "Evictions by kind", _EVICTIONS, view["evictions"])),
        print_table(_counts("skips", "Not cached, by reason", _SKIPS, view["insert_skips"])),
        print_table(_devices(view["devices"])),
        print_table(replace(_relations(top), note=note)),
        print_table(_policies(view["policies"])),
    ]


def _counts(table_id: str, title: str, names: Mapping[str, str], found: Row) -> ReportTable:
    return ReportTable(
        id=table_id,
        title=title,
        columns=(text("kind", "Kind"), number("blocks", "Blocks", Unit.COUNT)),
        rows=tuple(row(names.get(name, name), found[name]) for name in found),
    )


def _devices(rows: Sequence[Row]) -> ReportTable:
    calls = (("read", "Reads", "Read"), ("write", "Writes", "Written"))
    return ReportTable(
        id="devices",
        title="Devices",
        columns=(
            text("cache_file", "Cache file"),
            text("state", "State"),
            *(
                column
                for name, many, done in calls
                for column in (
                    number(f"{name}s", many, Unit.COUNT),
                    number(f"{name}_bytes", done, Unit.BYTES),
                    number(f"{name}_mean_ms", "Mean", Unit.MILLISECONDS),
                )
            ),
            number("errors", "Errors", Unit.COUNT),
        ),
        rows=tuple(
            row(
                str(one["cache_file"]),
                ": ".join(filter(None, (one["state"], one.get("state_reason")))),
                *(
                    one.get(f"{name}{what}")
                    for name, _, _ in calls
                    for what in ("s", "_bytes", "_mean_ms")
                ),
                sum(float(one.get(name) or 0) for name in _ERRORS),
            )
            for one in rows
        ),
    )


def _relations(rows: Sequence[Row]) -> ReportTable:
    return ReportTable(
        id="relations",
        title="Relations",
        columns=(
            text("relation", "Relation"),
            text("fork", "Fork"),
            text("policy", "Policy"),
            number("cached", "In the cache", Unit.BYTES),
            number("hits", "Hits", Unit.COUNT),
            number("misses", "Misses", Unit.COUNT),
            number("hit_ratio", "Hit ratio", Unit.SHARE),
        ),
        rows=tuple(
            row(
                one["relation"] or "of another database, or dropped",
                one["fork"],
                one["policy"] or "default",
                one["cached_bytes"],
                one["hits"],
                one["misses"],
                one["hit_ratio"],
            )
            for one in rows
        ),
    )


def _policies(rows: Sequence[Row]) -> ReportTable:
    return ReportTable(
        id="policies",
        title="Cache policies",
        columns=(text("relation", "Relation"), text("policy", "Policy"), text("set_on", "Set on")),
        rows=tuple(row(one["relation"], one["policy"], one["set_on"]) for one in rows),
    )


def _ms(value: float | None) -> str:
    return duration(None if value is None else value / 1000)
