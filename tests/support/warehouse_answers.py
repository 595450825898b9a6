# SPDX-License-Identifier: PostgreSQL
"""The 22 answers of the warehouse workload, computed without a database.

Plain loops over the generator's rows, following the business questions of TPC-H 3.0.1.  They share
nothing with the queries but the rows and the validation values, which are repeated here: an error
common to both must be in the specification.

Money is counted in cents and discounts in hundredths, so that sums are exact integers.  Dates are
texts, which sort in the order of dates.
"""

import csv
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pgflash_lab.warehouse.data import generate

#: In these columns, two decimals become an integer.
CENTS = {
    "s_acctbal", "c_acctbal", "ps_supplycost", "p_retailprice", "o_totalprice",
    "l_quantity", "l_extendedprice", "l_discount", "l_tax",
}  # fmt: skip
INTEGERS = {"o_shippriority", "p_size", "ps_availqty", "l_linenumber"}

Row = Any
Answer = Sequence[tuple[object, ...]]


class Rows:
    """All rows of a scale factor, with access by key."""

    def __init__(self, scale_factor: float) -> None:
        self.scale_factor = scale_factor
        with tempfile.TemporaryDirectory() as folder:
            files = generate(Path(folder), scale_factor=scale_factor)
            self.tables = {table: list(read_table(file)) for table, file in files.items()}
        self.region = {one.r_regionkey: one for one in self.tables["region"]}
        self.nation = {one.n_nationkey: one for one in self.tables["nation"]}
        self.supplier = {one.s_suppkey: one for one in self.tables["supplier"]}
        self.part = {one.p_partkey: one for one in self.tables["part"]}
        self.customer = {one.c_custkey: one for one in self.tables["customer"]}
        self.orders = {one.o_orderkey: one for one in self.tables["orders"]}
        self.partsupp = {(one.ps_partkey, one.ps_suppkey): one for one in self.tables["partsupp"]}
        self.lines = self.tables["lineitem"]
        self.lines_of: dict[int, list[Row]] = defaultdict(list)
        for line in self.lines:
            self.lines_of[line.l_orderkey].append(line)

    def region_of(self, nationkey: int) -> str:
        return str(self.region[self.nation[nationkey].n_regionkey].r_name)

    def nation_of(self, nationkey: int) -> str:
        return str(self.nation[nationkey].n_name)


def read_table(file: Path) -> Iterable[Row]:
    with file.open(newline="", encoding="ascii") as lines:
        for record in csv.DictReader(lines):
            yield SimpleNamespace(**{name: value_of(name, text) for name, text in record.items()})


def value_of(name: str, text: str) -> int | str:
    if name.endswith("key") or name in INTEGERS:
        return int(text)
    return round(Decimal(text) * 100) if name in CENTS else text


def money(cents: int, *, scale: int = 2) -> Decimal:
    """Return a sum that was kept as an integer with this many decimals."""
    return Decimal(cents).scaleb(-scale)


def net(line: Row) -> int:
    """Return price times (1 - discount), with four decimals."""
    return int(line.l_extendedprice * (100 - line.l_discount))


def q1(rows: Rows) -> Answer:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for line in rows.lines:
        if line.l_shipdate <= "1998-09-02":  # 90 days before 1 December 1998
            groups[line.l_returnflag, line.l_linestatus].append(line)
    return [
        (
            *key,
            money(sum(one.l_quantity for one in group)),
            money(sum(one.l_extendedprice for one in group)),
            money(sum(map(net, group)), scale=4),
            money(sum(net(one) * (100 + one.l_tax) for one in group), scale=6),
            money(sum(one.l_quantity for one in group)) / len(group),
            money(sum(one.l_extendedprice for one in group)) / len(group),
            money(sum(one.l_discount for one in group)) / len(group),
            len(group),
        )
        for key, group in sorted(groups.items())
    ]


def q2(rows: Rows) -> Answer:
    offers: dict[int, list[Row]] = defaultdict(list)
    for one in rows.partsupp.values():
        if rows.region_of(rows.supplier[one.ps_suppkey].s_nationkey) == "EUROPE":
            offers[one.ps_partkey].append(one)
    found = []
    for key, group in offers.items():
        part = rows.part[key]
        if part.p_size != 15 or not part.p_type.endswith("BRASS"):
            continue
        least = min(one.ps_supplycost for one in group)
        for one in group:
            if one.ps_supplycost == least:
                s = rows.supplier[one.ps_suppkey]
                nation = rows.nation_of(s.s_nationkey)
                found.append(
                    (money(s.s_acctbal), s.s_name, nation, key, part.p_mfgr, s.s_address,
                     s.s_phone, s.s_comment)
                )  # fmt: skip
    return sorted(found, key=lambda row: (-row[0], row[2], row[1], row[3]))[:100]


def q3(rows: Rows) -> Answer:
    found = []
    for order in rows.orders.values():
        if rows.customer[order.o_custkey].c_mktsegment != "BUILDING":
            continue
        lines = [one for one in rows.lines_of[order.o_orderkey] if one.l_shipdate > "1995-03-15"]
        if order.o_orderdate < "1995-03-15" and lines:
            revenue = money(sum(map(net, lines)), scale=4)
            found.append((order.o_orderkey, revenue, order.o_orderdate, order.o_shippriority))
    return sorted(found, key=lambda row: (-row[1], row[2]))[:10]


def q4(rows: Rows) -> Answer:
    counts = Counter(
        order.o_orderpriority
        for order in rows.orders.values()
        if "1993-07-01" <= order.o_orderdate < "1993-10-01"
        and any(one.l_commitdate < one.l_receiptdate for one in rows.lines_of[order.o_orderkey])
    )
    return sorted(counts.items())


def q5(rows: Rows) -> Answer:
    sums: Counter[int] = Counter()
    for order in rows.orders.values():
        if not "1994-01-01" <= order.o_orderdate < "1995-01-01":
            continue
        home = rows.customer[order.o_custkey].c_nationkey
        for line in rows.lines_of[order.o_orderkey]:
            if rows.region_of(home) == "ASIA" and (
                rows.supplier[line.l_suppkey].s_nationkey == home
            ):
                sums[home] += net(line)
    return [(rows.nation_of(key), money(value, scale=4)) for key, value in sums.most_common()]


def q6(rows: Rows) -> Answer:
    found = sum(
        one.l_extendedprice * one.l_discount
        for one in rows.lines
        if one.l_shipdate.startswith("1994-")
        and one.l_discount in (5, 6, 7)
        and one.l_quantity < 2400
    )
    return [(money(found, scale=4),)]


def q7(rows: Rows) -> Answer:
    sums: Counter[tuple[str, str, int]] = Counter()
    for line in rows.lines:
        seller = rows.nation_of(rows.supplier[line.l_suppkey].s_nationkey)
        customer = rows.customer[rows.orders[line.l_orderkey].o_custkey]
        buyer = rows.nation_of(customer.c_nationkey)
        year = int(line.l_shipdate[:4])
        if {seller, buyer} == {"FRANCE", "GERMANY"} and year in (1995, 1996):
            sums[seller, buyer, year] += net(line)
    return [(*key, money(value, scale=4)) for key, value in sorted(sums.items())]


def q8(rows: Rows) -> Answer:
    everyone: Counter[int] = Counter()
    brazil: Counter[int] = Counter()
    for line in rows.lines:
        order = rows.orders[line.l_orderkey]
        year = int(order.o_orderdate[:4])
        buyer = rows.customer[order.o_custkey].c_nationkey
        if (
            rows.part[line.l_partkey].p_type == "ECONOMY ANODIZED STEEL"
            and year in (1995, 1996)
            and rows.region_of(buyer) == "AMERICA"
        ):
            everyone[year] += net(line)
            if rows.nation_of(rows.supplier[line.l_suppkey].s_nationkey) == "BRAZIL":
                brazil[year] += net(line)
    return [(year, Decimal(brazil[year]) / everyone[year]) for year in sorted(everyone)]


def q9(rows: Rows) -> Answer:
    sums: Counter[tuple[str, int]] = Counter()
    for line in rows.lines:
        if "green" not in rows.part[line.l_partkey].p_name:
            continue
        nation = rows.nation_of(rows.supplier[line.l_suppkey].s_nationkey)
        year = int(rows.orders[line.l_orderkey].o_orderdate[:4])
        cost = rows.partsupp[line.l_partkey, line.l_suppkey].ps_supplycost * line.l_quantity
        sums[nation, year] += net(line) - cost
    ordered = sorted(sums.items(), key=lambda one: (one[0][0], -one[0][1]))
    return [(*key, money(value, scale=4)) for key, value in ordered]


def q10(rows: Rows) -> Answer:
    sums: Counter[int] = Counter()
    for order in rows.orders.values():
        if "1993-10-01" <= order.o_orderdate < "1994-01-01":
            for line in rows.lines_of[order.o_orderkey]:
                if line.l_returnflag == "R":
                    sums[order.o_custkey] += net(line)
    found = []
    for key, value in sums.most_common(20):
        c = rows.customer[key]
        found.append(
            (key, c.c_name, money(value, scale=4), money(c.c_acctbal),
             rows.nation_of(c.c_nationkey), c.c_address, c.c_phone, c.c_comment)
        )  # fmt: skip
    return found


def q11(rows: Rows) -> Answer:
    values: Counter[int] = Counter()
    for one in rows.partsupp.values():
        if rows.nation_of(rows.supplier[one.ps_suppkey].s_nationkey) == "GERMANY":
            values[one.ps_partkey] += one.ps_supplycost * one.ps_availqty
    least = sum(values.values()) * Decimal("0.0001") / Decimal(str(rows.scale_factor))
    return [(key, money(value)) for key, value in values.most_common() if value > least]


def q12(rows: Rows) -> Answer:
    high: Counter[str] = Counter()
    low: Counter[str] = Counter()
    for line in rows.lines:
        if (
            line.l_shipmode in ("MAIL", "SHIP")
            and line.l_shipdate < line.l_commitdate < line.l_receiptdate
            and line.l_receiptdate.startswith("1994-")
        ):
            priority = rows.orders[line.l_orderkey].o_orderpriority
            (high if priority in ("1-URGENT", "2-HIGH") else low)[line.l_shipmode] += 1
    return [(mode, high[mode], low[mode]) for mode in sorted({*high, *low})]


def q13(rows: Rows) -> Answer:
    counts = dict.fromkeys(rows.customer, 0)
    for order in rows.orders.values():
        _, special, rest = order.o_comment.partition("special")
        if not (special and "requests" in rest):
            counts[order.o_custkey] += 1
    spread = Counter(counts.values())
    return sorted(spread.items(), key=lambda one: (-one[1], -one[0]))


def q14(rows: Rows) -> Answer:
    lines = [one for one in rows.lines if one.l_shipdate.startswith("1995-09-")]
    promoted = [one for one in lines if rows.part[one.l_partkey].p_type.startswith("PROMO")]
    return [(Decimal(100) * sum(map(net, promoted)) / sum(map(net, lines)),)]


def q15(rows: Rows) -> Answer:
    sums: Counter[int] = Counter()
    for line in rows.lines:
        if "1996-01-01" <= line.l_shipdate < "1996-04-01":
            sums[line.l_suppkey] += net(line)
    most = max(sums.values())
    best = [rows.supplier[key] for key, value in sorted(sums.items()) if value == most]
    return [(s.s_suppkey, s.s_name, s.s_address, s.s_phone, money(most, scale=4)) for s in best]


def q16(rows: Rows) -> Answer:
    def complained(comment: str) -> bool:
        _, found, rest = comment.partition("Customer")
        return bool(found) and "Complaints" in rest

    kinds: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for one in rows.partsupp.values():
        part = rows.part[one.ps_partkey]
        if (
            part.p_brand != "Brand#45"
            and not part.p_type.startswith("MEDIUM POLISHED")
            and part.p_size in (49, 14, 23, 45, 19, 3, 36, 9)
            and not complained(rows.supplier[one.ps_suppkey].s_comment)
        ):
            kinds[part.p_brand, part.p_type, part.p_size].add(one.ps_suppkey)
    ordered = sorted(kinds.items(), key=lambda one: (-len(one[1]), *one[0]))
    return [(*key, len(suppliers)) for key, suppliers in ordered]


def q17(rows: Rows) -> Answer:
    of_part: dict[int, list[Row]] = defaultdict(list)
    for line in rows.lines:
        part = rows.part[line.l_partkey]
        if part.p_brand == "Brand#23" and part.p_container == "MED BOX":
            of_part[line.l_partkey].append(line)
    total: int | None = None
    for lines in of_part.values():
        quantity = sum(one.l_quantity for one in lines)
        for line in lines:
            if 5 * line.l_quantity * len(lines) < quantity:
                total = (total or 0) + line.l_extendedprice
    return [(None if total is None else money(total) / 7,)]


def q18(rows: Rows) -> Answer:
    found = []
    for order in rows.orders.values():
        quantity = sum(one.l_quantity for one in rows.lines_of[order.o_orderkey])
        if quantity > 30_000:
            customer = rows.customer[order.o_custkey]
            found.append(
                (customer.c_name, customer.c_custkey, order.o_orderkey, order.o_orderdate,
                 money(order.o_totalprice), money(quantity))
            )  # fmt: skip
    return sorted(found, key=lambda row: (-row[4], row[3]))[:100]


def q19(rows: Rows) -> Answer:
    kinds = (
        ("Brand#12", "SM", ("CASE", "BOX", "PACK", "PKG"), 1, 5),
        ("Brand#23", "MED", ("BAG", "BOX", "PKG", "PACK"), 10, 10),
        ("Brand#34", "LG", ("CASE", "BOX", "PACK", "PKG"), 20, 15),
    )
    total: int | None = None
    for line in rows.lines:
        if line.l_shipmode not in ("AIR", "AIR REG"):
            continue
        part = rows.part[line.l_partkey]
        size, container = part.p_container.split()
        for brand, wanted, containers, least, size_max in kinds:
            if (
                line.l_shipinstruct == "DELIVER IN PERSON"
                and part.p_brand == brand
                and size == wanted
                and container in containers
                and 100 * least <= line.l_quantity <= 100 * (least + 10)
                and 1 <= part.p_size <= size_max
            ):
                total = (total or 0) + net(line)
    return [(None if total is None else money(total, scale=4),)]


def q20(rows: Rows) -> Answer:
    sold: Counter[tuple[int, int]] = Counter()
    for line in rows.lines:
        if line.l_shipdate.startswith("1994-"):
            sold[line.l_partkey, line.l_suppkey] += line.l_quantity
    names = {
        (rows.supplier[key[1]].s_name, rows.supplier[key[1]].s_address)
        for key, one in rows.partsupp.items()
        if key in sold
        and rows.part[key[0]].p_name.startswith("forest")
        and one.ps_availqty * 200 > sold[key]
        and rows.nation_of(rows.supplier[key[1]].s_nationkey) == "CANADA"
    }
    return sorted(names)


def q21(rows: Rows) -> Answer:
    waits: Counter[str] = Counter()
    for order in rows.orders.values():
        lines = rows.lines_of[order.o_orderkey]
        late = [one for one in lines if one.l_receiptdate > one.l_commitdate]
        if (
            order.o_orderstatus == "F"
            and len({one.l_suppkey for one in lines}) > 1
            and len({one.l_suppkey for one in late}) == 1
        ):
            supplier = rows.supplier[late[0].l_suppkey]
            if rows.nation_of(supplier.s_nationkey) == "SAUDI ARABIA":
                waits[supplier.s_name] += len(late)
    return sorted(waits.items(), key=lambda one: (-one[1], one[0]))[:100]


def q22(rows: Rows) -> Answer:
    codes = ("13", "31", "23", "29", "30", "18", "17")
    chosen = [one for one in rows.customer.values() if one.c_phone[:2] in codes]
    rich = [one.c_acctbal for one in chosen if one.c_acctbal > 0]
    buyers = {order.o_custkey for order in rows.orders.values()}
    found: dict[str, list[int]] = defaultdict(list)
    for one in chosen:
        if one.c_acctbal * len(rich) > sum(rich) and one.c_custkey not in buyers:
            found[one.c_phone[:2]].append(one.c_acctbal)
    return [(code, len(group), money(sum(group))) for code, group in sorted(found.items())]


ANSWERS: dict[int, Callable[[Rows], Answer]] = {
    1: q1, 2: q2, 3: q3, 4: q4, 5: q5, 6: q6, 7: q7, 8: q8, 9: q9, 10: q10, 11: q11, 12: q12,
    13: q13, 14: q14, 15: q15, 16: q16, 17: q17, 18: q18, 19: q19, 20: q20, 21: q21, 22: q22,
}  # fmt: skip
