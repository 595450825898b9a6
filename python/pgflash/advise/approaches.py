# SPDX-License-Identifier: PostgreSQL
"""The ways to use flash, evaluated for one period, and the resulting advice.

Of the ways that gain nearly as much as the best, the one that needs the least flash is recommended;
if the database does not wait for storage, none is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pgflash.advise.bottleneck import find_bottleneck
from pgflash.advise.hot import Choice, Sizes, choose
from pgflash.advise.media import DISK, FLASH, Drive
from pgflash.advise.model import Model, Target
from pgflash.advise.sizes import CACHE_FACTOR, covered_hits, hits_of, knee
from pgflash.advise.work import Work
from pgflash.errors import UsageError
from pgflash.model.advice import Advice, ApproachAdvice, Bottleneck
from pgflash.model.device import Price, Raid
from pgflash.model.prices import storage_price
from pgflash.model.words import figure, percent, size

#: A way to use flash that gains less than this is not worth a change.
GAIN_MIN = 1.10
#: Share of the best way's gain: a way that reaches it with less flash is preferred.
NEARLY = 0.8
_TEMP_MIN = 0.01
#: The ways that put nothing on flash which a server cannot do without, and those that put only its
#: WAL there, whose commits a synchronous standby may have.
_MAY_BE_LOST = frozenset({"flash-cache", "temp-on-flash"})
_WAL_MAY_BE_LOST = frozenset({"wal-on-flash", "wal-and-cache"})

_NO_PRICE = Price(drives=0, raid=Raid.NONE, unit_price=0.0)

#: The cost of a placement's storage per 1,000 transactions a minute, from its throughput.
Cost = Callable[[str, float], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known besides the report; all of it may be unknown."""

    array: Drive = DISK
    flash: Drive = FLASH
    #: Free flash.
    flash_bytes: float | None = None
    sizes: Sizes = field(default_factory=dict)
    database_bytes: float | None = None
    shared_buffers_bytes: float | None = None
    #: Room for pg_wal: twice max_wal_size is a safe value.
    wal_bytes: float = 2 * 2**30
    users: float | None = None
    cores: float | None = None
    #: Why what is on the flash is lost when its machine stops; "" if it is not.
    ephemeral: str = ""
    #: Why a commit may be on this machine only when it is acknowledged; "" if it is not so.
    alone: str = ""
    #: What is on flash already: wal, temp, cache.
    on_flash: frozenset[str] = frozenset()
    #: Tablespaces on flash: the array does no work for what is in them.
    flash_tablespaces: frozenset[str] = frozenset()
    archiving: bool = False
    #: The archive is on the array: each segment is read there and written again.
    archive_on_array: bool = False
    cost: Cost | None = None
    currency: str = ""


def with_prices(known: Situation, *, array: Price | None, flash: Price | None) -> Situation:
    """Return the same with storage prices; each approach pays for the devices it uses.

    Raises UsageError if they are in different currencies.
    """

    def cost(approach: str, per_s: float) -> float | None:
        used = [flash] if approach == "all-on-flash" else [array, flash]
        prices = [storage_price(price) for price in used if price is not None]
        return sum(prices) / (60 * per_s / 1000) if len(prices) == len(used) and per_s else None

    if array is None and flash is None:
        return known
    currency = (flash or array or _NO_PRICE).currency
    if array is not None and array.currency != currency:
        raise UsageError(
            f"prices are in {array.currency} and {currency}, which cannot be added",
            hint="Give all prices in one currency.",
        )
    return replace(known, cost=cost, currency=currency)


def advise(work: Work, situation: Situation | None = None) -> Advice:
    """Say what flash would bring in a period, and where."""
    known = situation or Situation()
    if known.archive_on_array:
        size_bytes = work.wal_bytes
        work = replace(work, archive_read_bytes=size_bytes, archive_write_bytes=size_bytes)
    model = Model(work, array=known.array, flash=known.flash, users=known.users, cores=known.cores)
    bottleneck = find_bottleneck(work)
    # The WAL comes first: it is small, and its saving does not depend on the objects.
    room = known.flash_bytes
    if room is not None and "wal" not in known.on_flash:
        room = max(room - known.wal_bytes, 0.0)
    choice = choose(
        work,
        flash=known.flash,
        sizes=known.sizes,
        flash_bytes=room,
        kept="cache" in known.on_flash,
    )
    ways = [_judged(model, known, *way) for way in _ways(work, known, choice)]
    best = _recommended(ways, bottleneck)
    present = model.present
    return Advice(
        sentence=_sentence(bottleneck, best, ways),
        source=work.source,
        bottleneck=bottleneck,
        approaches=tuple(ways),
        objects=tuple(one for one in choice.objects if one.saved_s > 0),
        recommended=best.name if best else "",
        array=f"{known.array.name}: {known.array.source}",
        flash=f"{known.flash.name}: {known.flash.source}",
        sessions=work.sessions,
        per_s=work.per_s,
        db_time_ms=present.db_time_ms,
        flash_bytes=known.flash_bytes,
        notes=(*work.notes, *_notes(work, known, choice)),
    )


_Way = tuple[Target, float | None, str]


def _ways(work: Work, known: Situation, choice: Choice) -> list[_Way]:
    """Return each way with the flash it needs, and the arguments for it."""
    ways: list[_Way] = []
    cache = _cache(work, known)
    if cache is not None:
        ways.append(cache)
    wal = "wal" not in known.on_flash
    if wal:
        each = work.per_transaction_ms(work.commit_s)
        said = f"commits wait {figure(each)} ms a transaction for syncs of the WAL"
        target = Target(name="wal-on-flash", title="WAL on flash", wal=True)
        ways.append((target, known.wal_bytes, said))
    if cache is not None and wal:
        target = Target(
            name="wal-and-cache",
            title="WAL on flash + flash cache",
            wal=True,
            cached=cache[0].cached,
        )
        ways.append((target, _sum(cache[1], known.wal_bytes), "both of these"))
    if work.temp.seconds / work.db_time_s >= _TEMP_MIN:
        said = f"temporary files take {percent(work.temp.seconds / work.db_time_s)} of DB time"
        target = Target(name="temp-on-flash", title="Temporary files on flash", temp=True)
        ways.append((target, None, said))
    if known.archive_on_array and work.wal_bytes:
        said = f"archiving reads and writes {size(work.wal_bytes / work.elapsed_s)}/s each"
        target = Target(name="archive-on-flash", title="Archive of the WAL on flash", archive=True)
        ways.append((target, None, said))
    if choice.reads > 0:
        moved = [one.name for one in choice.objects if one.verdict == "move"]
        have = "1 object has" if len(moved) == 1 else f"{len(moved)} objects have"
        said = f"{have} {percent(choice.reads)} of the reads"
        target = Target(
            name="hot-objects",
            title="WAL and hot objects on flash",
            wal=True,
            temp="temp" in known.on_flash,
            reads=choice.reads,
            writes=choice.writes,
        )
        need = choice.bytes + (known.wal_bytes if wal else 0) if choice.bytes else None
        ways.append((target, need, said))
    everything = Target(
        name="all-on-flash",
        title="Everything on flash",
        wal=True,
        temp=True,
        archive=True,
        reads=1.0,
        writes=1.0,
    )
    ways.append((everything, _sum(known.database_bytes, known.wal_bytes), "no wait for disks"))
    return ways


def _cache(work: Work, known: Situation) -> _Way | None:
    """Return the flash cache of the size that the curve recommends, else one of a usual size."""
    if "cache" in known.on_flash and not work.curve:
        return None
    best = knee(work.curve, bytes_max=known.flash_bytes)
    ratios = hits_of(work, known.database_bytes)
    if best is not None and ratios is not None:
        size_bytes, hits = best.size_bytes, ratios.of(best.size_bytes)
        curve = "Buffer Pool Advisory" if work.oracle else "miss-ratio curve"
        said = f"{size(size_bytes)} would serve {percent(hits)} of the reads ({curve})"
        if "cache" in known.on_flash:
            # As a share of the reads that the present cache leaves to the disks.
            served = work.flash.count / max(work.flash.count + work.reads.count, 1.0)
            hits = max(hits - served, 0.0) / max(1 - served, 1e-9)
            if work.cache_bytes is None or size_bytes <= work.cache_bytes:
                return None
    elif known.database_bytes:
        buffers = known.shared_buffers_bytes or work.buffers_bytes
        usual = CACHE_FACTOR * (buffers or known.database_bytes)
        size_bytes = min(usual, known.database_bytes, known.flash_bytes or usual)
        hits = covered_hits(size_bytes, known.database_bytes) * (1 - work.direct_part)
        lack = (
            "there is no Buffer Pool Advisory"
            if work.oracle
            else "set pgflash.advice for a miss-ratio curve"
        )
        said = (
            f"{size(size_bytes)} would serve at least {percent(hits)} of the reads (judged by "
            f"its size alone: {lack})"
        )
    else:
        return None
    title = "Larger flash cache" if "cache" in known.on_flash else "Flash cache"
    target = Target(name="flash-cache", title=title, cached=hits)
    return target, size_bytes, said


def _judged(
    model: Model, known: Situation, target: Target, needed: float | None, said: str
) -> ApproachAdvice:
    found = model.predict(target)
    may_be_lost = _MAY_BE_LOST if known.alone else _MAY_BE_LOST | _WAL_MAY_BE_LOST
    lost = bool(known.ephemeral) and target.name not in may_be_lost
    short = needed is not None and known.flash_bytes is not None and needed > known.flash_bytes
    if short:
        said += f"; needs {size(needed or 0)} of flash, {size(known.flash_bytes or 0)} are free"
    elif lost:
        said += "; would be lost with the flash when the machine stops"
    elif found.ratio < GAIN_MIN:
        said += "; brings too little"
    return ApproachAdvice(
        name=target.name,
        title=target.title,
        fits=not short and not lost and found.ratio >= GAIN_MIN,
        reason=said,
        flash_bytes=needed,
        hit_ratio=target.cached or None,
        cost_per_1000_tpm=known.cost(target.name, found.per_s) if known.cost else None,
        currency=known.currency,
        ratio=found.ratio,
        per_s=found.per_s,
        db_time_ms=found.db_time_ms,
        cpu_ms=found.cpu_ms,
        disk_ms=found.disk_ms,
        flash_ms=found.flash_ms,
        commit_ms=found.commit_ms,
        other_ms=found.lock_ms + found.other_ms,
        limit=found.limit,
    )


def _recommended(ways: list[ApproachAdvice], bottleneck: Bottleneck) -> ApproachAdvice | None:
    fitting = [way for way in ways if way.fits]
    if not fitting or bottleneck.kind in ("nothing", "processors"):
        return None
    gain = max(way.ratio for way in fitting) - 1
    enough = [way for way in fitting if way.ratio - 1 >= NEARLY * gain]
    unknown = float("inf")
    # Without sizes, the order of the ways says which needs less.
    return min(enough, key=lambda way: (way.flash_bytes or unknown, ways.index(way)))


def _sentence(
    bottleneck: Bottleneck, best: ApproachAdvice | None, ways: list[ApproachAdvice]
) -> str:
    if best is None:
        if bottleneck.kind == "nothing":
            return bottleneck.sentence
        most = max(ways, key=lambda way: way.ratio)
        return (
            f"{bottleneck.sentence} {most.title} would bring {figure(most.ratio)} times the "
            f"throughput, limited by {most.limit}."
        )
    return (
        f"{bottleneck.sentence} {best.title} would bring {figure(best.ratio)} times the "
        f"throughput, then limited by {best.limit}."
    )


def _notes(work: Work, known: Situation, choice: Choice) -> list[str]:
    notes = []
    if known.ephemeral and known.alone:
        notes.append(
            f"The flash is empty after a stop of the machine ({known.ephemeral}), and "
            f"{known.alone}: put the cache and temporary files there, and nothing else."
        )
    elif known.ephemeral:
        notes.append(
            f"The flash is empty after a stop of the machine ({known.ephemeral}). WAL is safe "
            "there only while a synchronous standby confirms commits, and pgflash place puts no "
            "data there."
        )
    if work.standby_s:
        notes.append(
            f"Commits wait {figure(work.per_transaction_ms(work.standby_s))} ms a transaction for "
            "a synchronous standby, network included. WAL on flash here leaves that as it is."
        )
    if work.cores is None and known.cores is None:
        notes.append(
            "The number of processors is not known: twice the number in use is assumed, which "
            "limits every prediction. Give their number with --cores."
        )
    if not known.array.known:
        notes.append(
            "Only the class of the array is known: pgflash devices probe measures it, and "
            "--probe reads the result."
        )
    if known.users is None:
        notes.append(
            "The number of active sessions is assumed to stay the same: the throughput is what "
            "they could do. If clients have think time, give their number with --users."
        )
    if choice.objects and not choice.fitted:
        notes.append(
            "The sizes of objects, or of the flash, are not known, so it was not checked what fits."
        )
    if known.archiving and not known.archive_on_array:
        notes.append(
            "WAL is archived to a place that is not known or not on the array: the prediction "
            "does not include the load of archiving on the array."
        )
    if known.archive_on_array:
        notes.append(
            "PostgreSQL never waits for its archive: moving it to flash frees the array's "
            "bandwidth that its reads and writes take; without a known bandwidth it gains "
            "nothing."
        )
    return notes


def _sum(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
