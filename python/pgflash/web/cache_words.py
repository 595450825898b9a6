# SPDX-License-Identifier: PostgreSQL
"""The flash cache in words: the tables of its page, from the answer of /live/cache.

Bytes are shown as sizes, shares in percent; a column that this version of the extension lacks is
left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pgflash.analyze.words import count, percent
from pgflash.live.tables import LiveTable
from pgflash.model.sizes import size
from pgflash.report.colours import DISK

Row = Mapping[str, Any]

_NOTHING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table with its place on the page."""

    id: str
    table: LiveTable
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The miss-ratio curve: a sentence, its table, and the script's data."""

    sentence: str
    table: LiveTable
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The rest of a day's write budget, as a share and in words."""

    left: float
    words: str


def facts(cache: Row) -> list[tuple[str, str]]:
    """Return the description of the cache and its contents since the server started."""
    found: list[tuple[str, str]] = [
        ("Cache files", str(cache.get("cache_file") or _NOTHING)),
        ("Began", str(cache.get("start_reason") or _NOTHING)),
        ("Size", f"{_size(cache.get('used_bytes'))} used of {_size(cache.get('size_bytes'))}"),
        ("Hit ratio", _share(cache.get("hit_ratio"))),
        ("Hits", _count(cache.get("hits"))),
        ("Misses", _count(cache.get("misses"))),
        ("Left to the page cache", _count(cache.get("page_cache_reads"))),
        ("Blocks put in", _count(cache.get("inserts"))),
        ("Written to flash", _size(cache.get("flash_write_bytes"))),
        ("Written in 24 hours", _size(cache.get("flash_write_bytes_day"))),
        ("Mean read of flash", _ms(cache.get("flash_read_mean_ms"))),
        ("Mean read of disk", _ms(cache.get("disk_read_mean_ms"))),
    ]
    if cache.get("resize_progress") is not None:
        found.insert(3, ("Size is changing", _share(cache["resize_progress"])))
    if cache.get("resize_reason"):
        found.insert(3, ("Size does not change", str(cache["resize_reason"])))
    if cache.get("writer_running") is False:
        found.insert(0, ("Writer", "is not running: no new blocks are taken"))
    for name, title in (
        ("verify_mismatches", "Blocks that differed from their file"),
        ("corrupt_slots", "Blocks with a wrong checksum"),
        ("flash_read_errors", "Failed reads of flash"),
        ("flash_write_errors", "Failed writes of flash"),
        ("read_timeouts", "Reads of flash given up"),
    ):
        if cache.get(name):
            found.append((title, _count(cache[name])))
    return found


def budget(row: Row) -> Budget:
    """Return the rest of the day's write budget."""
    day, left = float(row["day_bytes"]), float(row["left_bytes"])
    share = min(max(left / day, 0.0), 1.0) if day > 0 else 0.0
    return Budget(
        left=share, words=f"{size(max(left, 0.0))} left of {size(day)} ({percent(share)})"
    )


def curve(view: Row) -> Curve:
    """Return the miss-ratio curve with the present size marked."""
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
    table = LiveTable(
        title="Miss ratio by size",
        columns=("Size", "Miss ratio", "Disk reads/s", "Saved ms/s"),
        rows=tuple(
            (
                f"{size(float(row['size_bytes']))}{_is_present(row, present)}",
                percent(1 - float(row["hit_ratio"])),
                _count(row.get("disk_reads_per_s")),
                _count(row.get("saved_ms_per_s")),
            )
            for row in rows
        ),
    )
    said = "Nothing was asked of the cache yet." if not points else _advice(rows, present)
    return Curve(sentence=said, table=table, data=msgspec.json.encode(data).decode())


def _is_present(row: Row, present: float | None) -> str:
    return " (present size)" if present is not None and row.get("size_factor") == 1 else ""


def _advice(rows: Sequence[Row], present: float | None) -> str:
    now = next((row for row in rows if row.get("size_factor") == 1), None)
    twice = next((row for row in rows if row.get("size_factor") == 2), None)
    if present is None or now is None or twice is None:
        return "What a flash cache of each size would have missed in the last hours."
    return (
        f"With its {size(present)} the cache misses {percent(1 - float(now['hit_ratio']))} of what "
        f"is asked for; with twice as much it would miss {percent(1 - float(twice['hit_ratio']))}."
    )


_EVICTIONS = {
    "invalidated": "invalidated: the block changed",
    "aged_out": "aged out: made room for another",
    "buffer_pinned": "should have made room, but was in use",
}
_SKIPS = {
    "not_current": "its file was dropped or truncated, or the mode changed",
    "writer_overloaded": "the writer was overloaded",
    "exists": "it was there already",
    "not_useful": "the policy expects more of what is there",
    "modification": "it changed since it was read",
    "corrupt": "it could not be written whole",
    "budget": "the write budget was used up",
    "device": "its cache file is bypassed or out of use",
    "invalid": "the disk gave something else: checksum or header is wrong",
}


_ERRORS = ("read_errors", "write_errors", "read_timeouts", "corrupt_slots")


def tables(view: Row) -> list[Section]:
    """Return the tables: evictions by kind, blocks not admitted, devices, relations, policies."""
    every, shown = int(view.get("relations_all") or 0), len(view["relations"])
    note = f"The {shown} with most in the cache, of {every:,}." if every > shown else ""
    return [
        Section(id="evictions", table=_counts("Evictions by kind", _EVICTIONS, view["evictions"])),
        Section(id="skips", table=_counts("Not put in, by reason", _SKIPS, view["insert_skips"])),
        Section(id="devices", table=_devices(view["devices"])),
        Section(id="relations", table=_relations(view["relations"]), note=note),
        Section(id="policies", table=_policies(view["policies"])),
    ]


def _counts(title: str, names: Mapping[str, str], found: Row) -> LiveTable:
    return LiveTable(
        title=title,
        columns=("Kind", "Blocks"),
        rows=tuple((names.get(name, name), f"{float(found[name]):,.0f}") for name in found),
    )


def _devices(rows: Sequence[Row]) -> LiveTable:
    return LiveTable(
        title="Devices",
        words=2,
        columns=(
            "Cache file", "State", "Reads", "Read", "Mean ms",
            "Writes", "Written", "Mean ms", "Errors",
        ),
        rows=tuple(
            (
                str(row["cache_file"]),
                ": ".join(filter(None, (row["state"], row.get("state_reason")))),
                _count(row.get("reads")),
                _size(row.get("read_bytes")),
                _ms(row.get("read_mean_ms")).removesuffix(" ms"),
                _count(row.get("writes")),
                _size(row.get("write_bytes")),
                _ms(row.get("write_mean_ms")).removesuffix(" ms"),
                _count(sum(float(row.get(name) or 0) for name in _ERRORS)),
            )
            for row in rows
        ),
    )  # fmt: skip


def _relations(rows: Sequence[Row]) -> LiveTable:
    return LiveTable(
        title="Relations",
        words=3,
        columns=("Relation", "Fork", "Policy", "In the cache", "Hits", "Misses", "Hit ratio"),
        rows=tuple(
            (
                row["relation"] or "of another database, or dropped",
                row["fork"],
                row["policy"] or "default",
                _size(row["cached_bytes"]),
                _count(row["hits"]),
                _count(row["misses"]),
                _share(row["hit_ratio"]),
            )
            for row in rows
        ),
    )


def _policies(rows: Sequence[Row]) -> LiveTable:
    return LiveTable(
        title="Cache policies",
        words=3,
        columns=("Relation", "Policy", "Set on"),
        rows=tuple((row["relation"], row["policy"], row["set_on"]) for row in rows),
    )


def _count(value: float | None) -> str:
    return _NOTHING if value is None else count(float(value))


def _size(value: float | None) -> str:
    return _NOTHING if value is None else size(float(value))


def _share(value: float | None) -> str:
    return _NOTHING if value is None else percent(float(value))


def _ms(value: float | None) -> str:
    return _NOTHING if value is None else f"{float(value):.3f} ms"
