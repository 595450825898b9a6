# SPDX-License-Identifier: PostgreSQL
"""Block streams: those in a folder, and generated ones, for which no policy was ever tuned.

A stream is what a second-level cache sees: reads (and writes) of dense block numbers, and
one class per block, its relation.  The generated ones begin as a database's own references and pass
a first-level LRU cache, as PostgreSQL's pass shared_buffers; the misses there are the stream.  Each
has its own seed, so that it is the same on every machine.
"""

import lzma
import math
import random
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

WRITE = 1 << 31

Reference = tuple[int, int]  # relation, block in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A block stream in memory."""

    name: str
    group: str
    requests: "array[int]"  # bit 31 = write
    classes: bytes  # by block; empty = one class

    @property
    def blocks(self) -> int:
        """The footprint."""
        return max(request & ~WRITE for request in self.requests) + 1

    def reads(self) -> "array[int]":
        """Leave the writes out."""
        return array("I", (request for request in self.requests if request < WRITE))


# ---- those of the folder

FOLDER = {
    "pg_ro_z16": "pg",
    "pg_tpcb_z16": "pg",
    "pg_tpcc_u32": "pg",
    "pg_ro_phase16": "pg",
    "arc_oltp": "oltp",
    "arc_p3": "p",
    "arc_p12": "p",
    "tc_1326": "cloud",
    "tc_3906": "cloud",
    "lirs_loop": "classic",
    "lirs_multi3": "classic",
    "lirs_ps": "classic",
}


def load(folder: Path, name: str) -> Stream:
    requests = array("I")
    requests.frombytes(lzma.decompress((folder / f"{name}.u32.xz").read_bytes()))
    classes = folder / f"{name}.cls.xz"
    return Stream(
        name=name,
        group=FOLDER[name],
        requests=requests,
        classes=lzma.decompress(classes.read_bytes()) if classes.exists() else b"",
    )


# ---- those that are made


def zipf(rng: random.Random, count: int, skew: float) -> Callable[[], int]:
    """Ranks from 0, rank r with a chance of 1 / (r + 1) ** skew."""
    heights = list(accumulate(1 / (rank + 1) ** skew for rank in range(count)))
    return lambda: bisect_left(heights, rng.random() * heights[-1])


def shuffled(rng: random.Random, count: int) -> list[int]:
    numbers = list(range(count))
    rng.shuffle(numbers)
    return numbers


def drifting(rng: random.Random) -> Iterator[Reference]:
    """Popularity shifts a little with every request."""
    rank = zipf(rng, 60_000, 0.95)
    place = shuffled(rng, 60_000)
    time = 0
    while True:
        time += 1
        yield 0, place[(rank() + time // 100) % len(place)]


def loops(rng: random.Random) -> Iterator[Reference]:
    """Three tables scanned over and over, and look-ups in a fourth."""
    sizes = (6_000, 20_000, 50_000)
    at = [0, 0, 0]
    rank = zipf(rng, 20_000, 0.9)
    place = shuffled(rng, 20_000)
    while True:
        table = rng.choices(range(4), (3, 3, 3, 2))[0]
        if table == 3:
            yield 3, place[rank()]
            continue
        for _ in range(32):
            yield table, at[table]
            at[table] = (at[table] + 1) % sizes[table]


def scans(rng: random.Random) -> Iterator[Reference]:
    """Index look-ups; now and then a large table is read once."""
    rank = zipf(rng, 80_000, 0.85)
    place = shuffled(rng, 80_000)
    scan = 0
    while True:
        for _ in range(60_000):
            row = place[rank()]
            yield 1, row // 60
            yield 0, row
        for block in range(30_000):
            yield 2 + scan % 3, block
            if block % 4 == 0:
                yield 0, place[rank()]
        scan += 1


def recency(rng: random.Random) -> Iterator[Reference]:
    """Read again what was read a while ago, the sooner the likelier."""
    history = [0]
    fresh = 1
    longest = math.log(400_000)
    while True:
        if rng.random() < 0.15:
            block = fresh
            fresh += 1
        else:
            block = history[-min(len(history), int(math.exp(rng.random() * longest)) + 1)]
        history.append(block)
        yield 0, block


def latest(rng: random.Random) -> Iterator[Reference]:
    """Ask for the last rows of a table that grows, and for some others."""
    rows = 200_000.0
    while True:
        rows += 0.6
        back = min(rows - 1, rng.expovariate(1 / 8_000))
        yield 0, int(rows - back)
        if rng.random() < 0.3:
            yield 1, rng.randrange(30_000)


def reports(rng: random.Random) -> Iterator[Reference]:
    """Analysis: scans of tables of all sizes, joins by index, in random order."""
    rank = zipf(rng, 30_000, 0.6)
    while True:
        query = rng.randrange(8)
        if query < 2:
            yield from ((0, block) for block in range(45_000))
        elif query < 4:
            yield from ((1, block) for block in range(12_000))
        elif query < 5:
            yield from ((2, block) for block in range(3_000))
        else:
            first = rng.randrange(40_000)
            for block in range(first, first + 5_000):
                yield 0, block
                yield 3, rank()
                yield 4, rank() // 4


def tenants(rng: random.Random) -> Iterator[Reference]:
    """Forty customers with separate data; three are active at a time."""
    ranks = zipf(rng, 4_000, 0.8)
    places = [shuffled(rng, 4_000) for _ in range(40)]
    popular = zipf(rng, 40, 0.7)
    at_work = [popular() for _ in range(3)]
    while True:
        if rng.random() < 1 / 8_000:
            at_work[rng.randrange(3)] = popular()
        tenant = rng.choice(at_work)
        yield tenant, places[tenant][ranks()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to make a stream."""

    references: Callable[[random.Random], Iterator[Reference]]
    first_level: int  # blocks
    reads: int


RECIPES = {
    "drifting": Recipe(references=drifting, first_level=1_500, reads=400_000),
    "loops": Recipe(references=loops, first_level=2_000, reads=400_000),
    "scans": Recipe(references=scans, first_level=2_000, reads=400_000),
    "recency": Recipe(references=recency, first_level=2_000, reads=400_000),
    "latest": Recipe(references=latest, first_level=1_000, reads=400_000),
    "reports": Recipe(references=reports, first_level=2_000, reads=500_000),
    "tenants": Recipe(references=tenants, first_level=1_500, reads=400_000),
}


def make(name: str) -> Stream:
    recipe = RECIPES[name]
    pool: OrderedDict[Reference, None] = OrderedDict()
    numbers: dict[Reference, int] = {}
    requests = array("I")
    for reference in recipe.references(random.Random(f"pgflash {name}")):
        if reference in pool:
            pool.move_to_end(reference)
            continue
        pool[reference] = None
        if len(pool) > recipe.first_level:
            pool.popitem(last=False)
        requests.append(numbers.setdefault(reference, len(numbers)))
        if len(requests) == recipe.reads:
            break
    return Stream(
        name=name,
        group="made",
        requests=requests,
        classes=bytes(relation % 256 for relation, _ in numbers),
    )
