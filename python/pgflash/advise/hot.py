# SPDX-License-Identifier: PostgreSQL
"""Which tables and indexes belong on flash, if it cannot hold them all.

Each object has a size and a time that its move would save: the waits for its own reads, less the
time that flash takes for them, and its part of the waits for the writing of data.  The choice is
the solution of that knapsack problem: no other choice that fits saves more (sizes are rounded up to
1/4096 of the flash, so the choice always fits).

If a period used only a part of an object, it is better to keep the object in the flash cache
(policy keep) than to move it: the cache holds the part, a move takes room for the whole.  The same
is true of an object that does not fit.  A cache does not take writes off the array, so an object
that is mostly written is moved or left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgflash.advise.media import Drive
from pgflash.advise.work import Segment, Work
from pgflash.model.advice import HotObject
from pgflash.model.words import percent, size

_UNITS = 4096
_BLOCK_BYTES = 8192
#: Share of all read time; an object that costs less stays where it is.
SHARE_MIN = 0.005
#: Share of an object's blocks: if fewer were read, the rest would be moved for nothing.
TOUCHED_MIN = 0.5
_SYSTEM = ("pg_catalog.", "pg_toast.", "information_schema.", "pgflash_", "file ")
_MOVABLE = frozenset({"table", "index", "materialized view", "lob", ""})

#: Sizes of relations by (database, name).
Sizes = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The objects in the order of their cost, and what the chosen ones hold."""

    objects: tuple[HotObject, ...]
    #: Shares of all reads and writes that belong to objects to be moved.
    reads: float
    writes: float
    bytes: float
    #: Sizes were known, so the choice is known to fit.
    fitted: bool


def choose(
    work: Work, *, flash: Drive, sizes: Sizes, flash_bytes: float | None, kept: bool = False
) -> Choice:
    """Rank the relations, and choose those that flash of a given size should hold.

    If sizes or the size of flash are unknown, all relations that cost enough are chosen; if both
    are known, only relations with a size (those of the session's database).  KEPT: a flash cache
    exists that could keep what is not moved.
    """
    candidates = [s for s in work.segments if _is_movable(s)]
    all_read_s = sum(segment.read_s for segment in work.segments)
    all_reads = sum(segment.reads for segment in work.segments)
    all_writes = sum(segment.writes for segment in work.segments)
    measured = [
        _measure(work, one, flash, sizes, all_read_s=all_read_s, all_writes=all_writes)
        for one in candidates
    ]
    worth = [one for one in measured if one.share >= SHARE_MIN and one.saved_s > 0]
    fitted = flash_bytes is not None and bool(sizes)
    movable = [one for one in worth if not (kept and _is_partial(one))]
    if sizes:
        movable = [one for one in movable if one.bytes is not None]
    if fitted and flash_bytes is not None:
        values = [(one.bytes or 0.0, one.saved_s) for one in movable]
        moved = {id(movable[index]) for index in knapsack(values, flash_bytes)}
    else:
        moved = {id(one) for one in movable}
    judged = [
        _judge(one, id(one) in moved, one in worth, kept=kept, sized=bool(sizes))
        for one in measured
    ]
    judged.sort(key=lambda one: (-one.saved_s, one.name))
    chosen = [one for one in judged if one.verdict == "move"]
    return Choice(
        objects=tuple(judged),
        reads=_part(sum(one.reads for one in chosen), all_reads),
        writes=_part(sum(one.writes for one in chosen), all_writes),
        bytes=sum(one.bytes or 0.0 for one in chosen),
        fitted=fitted,
    )


def choose_named(work: Work, names: Iterable[str]) -> tuple[float, float]:
    """Return the shares of reads and writes that some tables and their indexes have.

    A table is named with or without its schema.  An index is taken to be a table's if its name
    begins with the table's name and "_", as in names that PostgreSQL generates.
    """
    wanted = tuple(names)
    mine = [one for one in work.segments if any(_belongs(one.name, name) for name in wanted)]
    reads = sum(one.reads for one in work.segments)
    writes = sum(one.writes for one in work.segments)
    return (
        _part(sum(one.reads for one in mine), reads),
        _part(sum(one.writes for one in mine), writes),
    )


def hot_tables(work: Work, *, flash: Drive, share: float = 0.8, most: int = 4) -> tuple[str, ...]:
    """Return the fewest tables that, with their indexes, account for a share of the read time."""
    sums: dict[str, float] = {}
    tables = [one.name for one in work.segments if one.kind == "table" and _is_movable(one)]
    for one in work.segments:
        owner = max((t for t in tables if _belongs(one.name, t)), key=len, default="")
        if owner:
            saved = max(one.read_s - one.reads * flash.service_ms(_BLOCK_BYTES) / 1000, 0.0)
            sums[owner] = sums.get(owner, 0.0) + saved
    total = sum(sums.values())
    chosen: list[str] = []
    for name, _saved in sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])):
        if len(chosen) >= most or sum(sums[one] for one in chosen) >= share * total:
            break
        chosen.append(name)
    return tuple(chosen)


def knapsack(items: Sequence[tuple[float, float]], capacity: float) -> list[int]:
    """Return the items (size, value) to take so that no other choice that fits is worth more."""
    if capacity <= 0:
        return []
    unit = capacity / _UNITS
    # Round up, except for what floating point added to an exact multiple.
    weights = [max(int(-(-(each / unit - 1e-9) // 1)), 0) for each, _value in items]
    best = [0.0] * (_UNITS + 1)
    taken = [bytearray(_UNITS + 1) for _ in items]
    for index, (weight, (_size, value)) in enumerate(zip(weights, items, strict=True)):
        if value <= 0:
            continue
        for room in range(_UNITS, weight - 1, -1):
            if best[room - weight] + value > best[room]:
                best[room] = best[room - weight] + value
                taken[index][room] = 1
    chosen, room = [], _UNITS
    for index in range(len(items) - 1, -1, -1):
        if taken[index][room]:
            chosen.append(index)
            room -= weights[index]
    return sorted(chosen)


def _measure(
    work: Work,
    one: Segment,
    flash: Drive,
    sizes: Sizes,
    *,
    all_read_s: float,
    all_writes: float,
) -> HotObject:
    # A segment's time includes all processes' reads: clients waited for their part of it.
    clients = min(work.reads.seconds / all_read_s, 1.0) if all_read_s > 0 else 0.0
    fast_s = one.reads * flash.service_ms(work.reads.mean_bytes) / 1000
    saved_s = max(one.read_s - fast_s, 0.0) * clients
    saved_s += work.write_wait_s * _part(one.writes, all_writes)
    return HotObject(
        name=one.name,
        database=one.database,
        kind=one.kind,
        bytes=sizes.get((one.database, one.name)),
        reads=one.reads,
        read_bytes=one.reads * _BLOCK_BYTES if one.read_bytes is None else one.read_bytes,
        writes=one.writes,
        saved_s=saved_s,
        share=_part(one.read_s, all_read_s),
        verdict="leave",
        reason="",
    )


def _judge(one: HotObject, moved: bool, worth: bool, *, kept: bool, sized: bool) -> HotObject:
    if not worth:
        verdict, reason = "leave", f"costs {percent(one.share)} of the read time"
    elif moved:
        verdict, reason = "move", f"costs {percent(one.share)} of the read time"
    elif sized and one.bytes is None:
        verdict, reason = "leave", "its size is not known: connect to its database"
    elif kept:
        verdict = "keep"
        reason = (
            f"at most {size(one.read_bytes)} of {size(one.bytes or 0)} were read: the "
            "flash cache holds that part"
            if _is_partial(one)
            else "does not fit beside objects that save more; the flash cache can hold the "
            "part that is read"
        )
    else:
        verdict, reason = "leave", "does not fit beside objects that save more"
    return replace(one, verdict=verdict, reason=reason)


def _is_partial(one: HotObject) -> bool:
    """Tell whether a period used only a part of an object, and read more than it wrote."""
    if one.bytes is None or one.writes > one.reads:
        return False
    return one.read_bytes < TOUCHED_MIN * one.bytes


def _is_movable(segment: Segment) -> bool:
    return segment.kind in _MOVABLE and not segment.name.startswith(_SYSTEM)


def _belongs(name: str, table: str) -> bool:
    plain = name.rpartition(".")[2]
    wanted = table.rpartition(".")[2]
    if "." in table and name.rpartition(".")[0] != table.rpartition(".")[0]:
        return False
    return plain == wanted or plain.startswith(f"{wanted}_")


def _part(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
