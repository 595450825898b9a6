# SPDX-License-Identifier: PostgreSQL
"""The initial rows of the nine tables, as lines for COPY (TPC-C 5.11 clause 4.3).

Each function yields one table's rows for one warehouse, in key order, as text lines for COPY. A row
depends only on the seed, its table and its warehouse, so loads repeat exactly and tables may be
filled in any order.

Random strings are slices of one pool of random characters, cut at a random place: the specification
requires random alphanumeric strings, and drawing each character would take most of the load's time.
"10 % of the rows" is exactly 10 %, chosen at random.
"""

import string
from collections.abc import Iterator
from copy import copy
from random import Random

ITEMS = 100_000
DISTRICTS = 10
CUSTOMERS_PER_DISTRICT = 3_000
ORDERS_PER_DISTRICT = 3_000
#: Orders from this number on are not delivered yet: 900 in each district.
FIRST_NEW_ORDER = 2_101
STOCK_PER_WAREHOUSE = ITEMS

#: NURand's A for last names, customer numbers and items.
NAME_A = 255
CUSTOMER_A = 1_023
ITEM_A = 8_191

SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")

#: How COPY writes a null.
NULL = "\\N"

_ALPHANUMERIC = string.ascii_letters + string.digits
_POOL_SIZE = 1 << 20
#: The longest string cut from a pool, c_data.
_SLICE_MAX = 500


def last_name(number: int) -> str:
    """Return the last name for a number from 0 to 999."""
    return SYLLABLES[number // 100] + SYLLABLES[number // 10 % 10] + SYLLABLES[number % 10]


def nurand(random: Random, *, a: int, x: int, y: int, c: int) -> int:
    """Draw NURand(A, x, y) with the run's constant C; A = 0 is uniform."""
    return ((random.randint(0, a) | random.randint(x, y)) + c) % (y - x + 1) + x


def choose_load_constant(random: Random) -> int:
    """Choose C for the last names of a load."""
    return random.randint(0, NAME_A)


def choose_run_constant(random: Random, *, load_constant: int) -> int:
    """Choose C for the last names of a run, as far from the load's as clause 2.1.6.1 requires."""
    allowed = [c for c in range(NAME_A + 1) if is_run_constant_allowed(run=c, load=load_constant)]
    return random.choice(allowed)


def is_run_constant_allowed(*, run: int, load: int) -> bool:
    """Tell whether the distance between the two constants for last names is a valid one."""
    distance = abs(run - load)
    return 65 <= distance <= 119 and distance not in (96, 112)


class Strings:
    """Random strings, cut at random places from pools that are made once."""

    def __init__(self, random: Random, *, pool: Random) -> None:
        """Make the pools with one source of randomness, and cut with another."""
        self._rand = random.random
        size = _POOL_SIZE + _SLICE_MAX
        self._letters = "".join(pool.choices(_ALPHANUMERIC, k=size))
        self._digits = "".join(pool.choices(string.digits, k=size))

    def cut_by(self, random: Random) -> "Strings":
        """Return strings from the same pools, cut by another source of randomness."""
        strings = copy(self)
        strings._rand = random.random
        return strings

    def letters(self, least: int, most: int) -> str:
        """Return a random a-string."""
        length = least + int(self._rand() * (most - least + 1))
        start = int(self._rand() * _POOL_SIZE)
        return self._letters[start : start + length]

    def exactly(self, length: int) -> str:
        """Return a random a-string of a given length."""
        start = int(self._rand() * _POOL_SIZE)
        return self._letters[start : start + length]

    def digits(self, length: int) -> str:
        """Return a random n-string."""
        start = int(self._rand() * _POOL_SIZE)
        return self._digits[start : start + length]

    def data(self, *, original: bool) -> str:
        """Return i_data or s_data, with ORIGINAL somewhere in it if asked."""
        text = self.letters(26, 50)
        if not original:
            return text
        start = int(self._rand() * (len(text) - 7))
        return text[:start] + "ORIGINAL" + text[start + 8 :]

    def address(self) -> str:
        """Return the five columns of an address, separated for COPY."""
        return "\t".join(
            (
                self.letters(10, 20),
                self.letters(10, 20),
                self.letters(10, 20),
                self.exactly(2),
                self.digits(4) + "11111",
            )
        )


class Rows:
    """Every table's rows for one seed."""

    def __init__(self, *, seed: int, c_last_constant: int, now: str) -> None:
        """Remember what the rows depend on; now is the load's time, for COPY."""
        self._seed = seed
        self._c_last_constant = c_last_constant
        self._now = now
        self._strings = Strings(Random(f"{seed} cuts"), pool=Random(f"{seed} pools"))

    def _source(self, table: str, w_id: int) -> tuple[Random, Strings]:
        """Return the randomness of one table of one warehouse."""
        cuts = Random(f"{self._seed} {table} cuts {w_id}")
        return Random(f"{self._seed} {table} {w_id}"), self._strings.cut_by(cuts)

    def item(self) -> Iterator[str]:
        """Yield the items, which all warehouses share."""
        random, strings = self._source("item", 0)
        rand = random.random
        original = frozenset(random.sample(range(1, ITEMS + 1), ITEMS // 10))
        for i_id in range(1, ITEMS + 1):
            cents = 100 + int(rand() * 9_901)
            yield (
                f"{i_id}\t{1 + int(rand() * 10_000)}\t{strings.letters(14, 24)}"
                f"\t{cents // 100}.{cents % 100:02d}"
                f"\t{strings.data(original=i_id in original)}\n"
            )

    def warehouse(self, w_id: int) -> Iterator[str]:
        """Yield the warehouse itself."""
        random, strings = self._source("warehouse", w_id)
        tax = random.randint(0, 2_000)
        yield f"{w_id}\t{strings.letters(6, 10)}\t{strings.address()}\t0.{tax:04d}\t300000.00\n"

    def district(self, w_id: int) -> Iterator[str]:
        """Yield a warehouse's districts."""
        random, strings = self._source("district", w_id)
        for d_id in range(1, DISTRICTS + 1):
            tax = random.randint(0, 2_000)
            yield (
                f"{w_id}\t{d_id}\t{ORDERS_PER_DISTRICT + 1}\t{strings.letters(6, 10)}"
                f"\t{strings.address()}\t0.{tax:04d}\t30000.00\n"
            )

    def stock(self, w_id: int) -> Iterator[str]:
        """Yield a warehouse's stock, one row an item."""
        random, strings = self._source("stock", w_id)
        rand = random.random
        text = strings.exactly
        original = frozenset(random.sample(range(1, ITEMS + 1), ITEMS // 10))
        for i_id in range(1, ITEMS + 1):
            yield (
                f"{w_id}\t{i_id}\t{10 + int(rand() * 91)}\t0\t0\t0"
                f"\t{text(24)}\t{text(24)}\t{text(24)}\t{text(24)}\t{text(24)}"
                f"\t{text(24)}\t{text(24)}\t{text(24)}\t{text(24)}\t{text(24)}"
                f"\t{strings.data(original=i_id in original)}\n"
            )

    def customer(self, w_id: int) -> Iterator[str]:
        """Yield a warehouse's customers."""
        random, strings = self._source("customer", w_id)
        rand = random.random
        count = CUSTOMERS_PER_DISTRICT
        for d_id in range(1, DISTRICTS + 1):
            bad = frozenset(random.sample(range(1, count + 1), count // 10))
            for c_id in range(1, count + 1):
                number = c_id - 1
                if number >= 1_000:
                    number = nurand(random, a=NAME_A, x=0, y=999, c=self._c_last_constant)
                yield (
                    f"{w_id}\t{d_id}\t{c_id}\t{strings.letters(8, 16)}\tOE\t{last_name(number)}"
                    f"\t{strings.address()}\t{strings.digits(16)}\t{self._now}"
                    f"\t{'BC' if c_id in bad else 'GC'}\t50000.00"
                    f"\t0.{int(rand() * 5_001):04d}\t-10.00\t10.00\t1\t0"
                    f"\t{strings.letters(300, 500)}\n"
                )

    def history(self, w_id: int) -> Iterator[str]:
        """Yield one payment of 10.00 for each customer."""
        _, strings = self._source("history", w_id)
        for d_id in range(1, DISTRICTS + 1):
            for c_id in range(1, CUSTOMERS_PER_DISTRICT + 1):
                yield (
                    f"{c_id}\t{d_id}\t{w_id}\t{d_id}\t{w_id}\t{self._now}\t10.00"
                    f"\t{strings.letters(12, 24)}\n"
                )

    def new_order(self, w_id: int) -> Iterator[str]:
        """Yield the orders not delivered yet."""
        for d_id in range(1, DISTRICTS + 1):
            for o_id in range(FIRST_NEW_ORDER, ORDERS_PER_DISTRICT + 1):
                yield f"{w_id}\t{d_id}\t{o_id}\n"

    def _order_sizes(self, w_id: int) -> Random:
        """Return the source of o_ol_cnt, which both orders and their lines need."""
        return Random(f"{self._seed} order sizes {w_id}")

    def orders(self, w_id: int) -> Iterator[str]:
        """Yield the orders, one for each customer, the customers in random order."""
        random, _ = self._source("orders", w_id)
        sizes = self._order_sizes(w_id)
        for d_id in range(1, DISTRICTS + 1):
            customers = random.sample(range(1, CUSTOMERS_PER_DISTRICT + 1), CUSTOMERS_PER_DISTRICT)
            for o_id, c_id in enumerate(customers, start=1):
                carrier = random.randint(1, 10) if o_id < FIRST_NEW_ORDER else NULL
                yield (
                    f"{w_id}\t{d_id}\t{o_id}\t{c_id}\t{self._now}\t{carrier}"
                    f"\t{5 + int(sizes.random() * 11)}\t1\n"
                )

    def order_line(self, w_id: int) -> Iterator[str]:
        """Yield the lines of the orders."""
        random, strings = self._source("order_line", w_id)
        rand = random.random
        sizes = self._order_sizes(w_id)
        for d_id in range(1, DISTRICTS + 1):
            for o_id in range(1, ORDERS_PER_DISTRICT + 1):
                delivered = o_id < FIRST_NEW_ORDER
                for number in range(1, 6 + int(sizes.random() * 11)):
                    cents = 0 if delivered else 1 + int(rand() * 999_999)
                    yield (
                        f"{w_id}\t{d_id}\t{number}\t{o_id}\t{1 + int(rand() * ITEMS)}\t{w_id}"
                        f"\t{self._now if delivered else NULL}\t5"
                        f"\t{cents // 100}.{cents % 100:02d}\t{strings.exactly(24)}\n"
                    )
