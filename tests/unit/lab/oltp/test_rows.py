# SPDX-License-Identifier: PostgreSQL
"""The initial rows of the oltp workload follow clause 4.3 of the specification."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgflash_lab.oltp.rows import (
    NAME_A,
    NULL,
    Rows,
    choose_load_constant,
    choose_run_constant,
    is_run_constant_allowed,
    last_name,
    nurand,
)

NOW = "2026-01-02T03:04:05+00:00"


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows(seed=7, c_last_constant=123, now=NOW)


def fields(lines: Iterator[str]) -> list[list[str]]:
    found = []
    for line in lines:
        assert line.endswith("\n")
        found.append(line[:-1].split("\t"))
    return found


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "BARBARBAR"),
        (371, "PRICALLYOUGHT"),  # the specification's own example
        (999, "EINGEINGEING"),
        (246, "ABLEPRESANTI"),
        (58, "BARESEATION"),
    ],
)
def test_a_number_becomes_the_last_name_of_its_three_digits(number: int, name: str) -> None:
    assert last_name(number) == name


def test_the_thousand_last_names_are_different() -> None:
    assert len({last_name(number) for number in range(1_000)}) == 1_000


@given(st.integers(0, 255), st.integers(0, 100), st.integers(1, 1_000), st.integers(0, 10_000))
def test_nurand_stays_in_its_range(a: int, x: int, width: int, c: int) -> None:
    y = x + width - 1
    assert x <= nurand(Random(1), a=a, x=x, y=y, c=c) <= y


def test_nurand_is_distributed_as_its_formula_says() -> None:
    a, x, y, c = 7, 3, 22, 5
    exact: Counter[int] = Counter()
    for first in range(a + 1):
        for second in range(x, y + 1):
            exact[((first | second) + c) % (y - x + 1) + x] += 1
    cells = (a + 1) * (y - x + 1)
    random = Random(20261121)
    draws = 200_000
    seen = Counter(nurand(random, a=a, x=x, y=y, c=c) for _ in range(draws))
    assert set(seen) == set(exact)
    chi_square = sum(
        (seen[value] - draws * count / cells) ** 2 / (draws * count / cells)
        for value, count in exact.items()
    )
    # The 99.9th percentile for up to 19 degrees of freedom is 43.8.
    assert chi_square < 43.8


def test_nurand_with_a_of_0_is_uniform() -> None:
    random = Random(3)
    seen = Counter(nurand(random, a=0, x=1, y=10, c=4) for _ in range(50_000))
    assert all(4_700 < seen[value] < 5_300 for value in range(1, 11))


@given(st.integers(0, NAME_A), st.integers())
def test_the_run_constant_keeps_its_distance_from_the_load_constant(load: int, seed: int) -> None:
    run = choose_run_constant(Random(seed), load_constant=load)
    assert 0 <= run <= NAME_A
    assert is_run_constant_allowed(run=run, load=load)


@pytest.mark.parametrize("distance", [0, 64, 96, 112, 120, 157, 223])
def test_a_wrong_distance_between_the_constants_is_refused(distance: int) -> None:
    assert not is_run_constant_allowed(run=distance, load=0)
    assert not is_run_constant_allowed(run=0, load=distance)


def test_load_constants_cover_their_range() -> None:
    seen = {choose_load_constant(Random(seed)) for seed in range(4_000)}
    assert min(seen) == 0
    assert max(seen) == NAME_A


def test_items_are_complete_and_a_tenth_is_original(rows: Rows) -> None:
    items = fields(rows.item())
    assert [int(row[0]) for row in items] == list(range(1, 100_001))
    assert all(1 <= int(row[1]) <= 10_000 for row in items)
    assert all(14 <= len(row[2]) <= 24 for row in items)
    assert all(1 <= float(row[3]) <= 100 for row in items)
    assert all(26 <= len(row[4]) <= 50 for row in items)
    assert 10_000 <= sum("ORIGINAL" in row[4] for row in items) <= 10_005


def test_original_stands_at_any_place(rows: Rows) -> None:
    texts = [row[4] for row in fields(islice(rows.item(), 20_000)) if "ORIGINAL" in row[4]]
    assert any(text.startswith("ORIGINAL") for text in texts)
    assert any(text.endswith("ORIGINAL") for text in texts)


def test_a_warehouse_has_ten_districts_and_taxes_up_to_a_fifth(rows: Rows) -> None:
    (warehouse,) = fields(rows.warehouse(3))
    districts = fields(rows.district(3))
    assert warehouse[0] == "3"
    assert warehouse[-1] == "300000.00"
    assert [row[:3] for row in districts] == [["3", str(d), "3001"] for d in range(1, 11)]
    assert {row[-1] for row in districts} == {"30000.00"}
    for row in (warehouse, *districts):
        assert 0 <= float(row[-2]) <= 0.2
        assert len(row[-3]) == 9
        assert row[-3].endswith("11111")
        assert len(row[-4]) == 2


def test_stock_has_every_item_once(rows: Rows) -> None:
    stock = fields(rows.stock(2))
    assert [int(row[1]) for row in stock] == list(range(1, 100_001))
    assert {row[0] for row in stock} == {"2"}
    quantities = {int(row[2]) for row in stock}
    assert quantities == set(range(10, 101))
    assert {tuple(row[3:6]) for row in stock} == {("0", "0", "0")}
    assert {len(text) for row in stock[:1_000] for text in row[6:16]} == {24}
    assert 10_000 <= sum("ORIGINAL" in row[16] for row in stock) <= 10_005


def test_the_first_thousand_customers_have_the_thousand_names_in_order(rows: Rows) -> None:
    customers = fields(rows.customer(1))
    assert len(customers) == 30_000
    for district in range(10):
        block = customers[district * 3_000 : (district + 1) * 3_000]
        assert [int(row[2]) for row in block] == list(range(1, 3_001))
        assert [row[5] for row in block[:1_000]] == [last_name(n) for n in range(1_000)]
        assert sum(row[13] == "BC" for row in block) == 300
        assert {row[13] for row in block} == {"BC", "GC"}


def test_the_other_customers_names_are_drawn_with_the_load_constant(rows: Rows) -> None:
    drawn = Counter(row[5] for row in fields(rows.customer(1)) if int(row[2]) > 1_000)
    exact: Counter[str] = Counter()
    for first in range(256):
        for second in range(1_000):
            exact[last_name(((first | second) + 123) % 1_000)] += 1
    # The likeliest tenth of the names must be drawn as often as the formula says.
    likeliest = [name for name, _ in exact.most_common(100)]
    expected = sum(exact[name] for name in likeliest) / 256_000
    share = sum(drawn[name] for name in likeliest) / 20_000
    assert expected > 0.2  # skewed, or this test shows nothing
    assert share == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 20_000) ** 0.5)


def test_customers_start_with_the_specified_money(rows: Rows) -> None:
    for row in islice(fields(rows.customer(1)), 5_000):
        assert row[4] == "OE"
        assert 8 <= len(row[3]) <= 16
        assert len(row[11]) == 16
        assert row[12] == NOW
        assert row[14] == "50000.00"
        assert 0 <= float(row[15]) <= 0.5
        assert row[16:20] == ["-10.00", "10.00", "1", "0"]
        assert 300 <= len(row[20]) <= 500


def test_every_customer_has_paid_once(rows: Rows) -> None:
    history = fields(rows.history(4))
    assert len({(row[0], row[1]) for row in history}) == len(history) == 30_000
    assert all(row[2] == row[4] == "4" and row[1] == row[3] for row in history)
    assert {row[6] for row in history} == {"10.00"}


def test_every_customer_has_one_order_and_the_last_900_are_new(rows: Rows) -> None:
    orders = fields(rows.orders(1))
    new_orders = fields(rows.new_order(1))
    assert len(orders) == 30_000
    for district in range(10):
        block = orders[district * 3_000 : (district + 1) * 3_000]
        assert [int(row[2]) for row in block] == list(range(1, 3_001))
        customers = [int(row[3]) for row in block]
        assert sorted(customers) == list(range(1, 3_001))
        assert customers != sorted(customers)
        assert all(1 <= int(row[5]) <= 10 for row in block[:2_100])
        assert all(row[5] == NULL for row in block[2_100:])
    assert {int(row[6]) for row in orders} == set(range(5, 16))
    assert [(row[1], row[2]) for row in new_orders] == [
        (str(d), str(o)) for d in range(1, 11) for o in range(2_101, 3_001)
    ]


def test_lines_are_as_many_as_their_orders_say(rows: Rows) -> None:
    said = {(row[1], row[2]): int(row[6]) for row in fields(rows.orders(5))}
    lines = fields(rows.order_line(5))
    assert Counter((row[1], row[3]) for row in lines) == Counter(said)
    for row in lines:
        delivered = int(row[3]) < 2_101
        assert row[0] == row[5] == "5"
        assert 1 <= int(row[4]) <= 100_000
        assert row[6] == (NOW if delivered else NULL)
        assert row[7] == "5"
        assert (row[8] == "0.00") if delivered else (0.01 <= float(row[8]) <= 9_999.99)
        assert len(row[9]) == 24


def test_rows_depend_on_seed_and_warehouse_only() -> None:
    first = Rows(seed=7, c_last_constant=123, now=NOW)
    second = Rows(seed=7, c_last_constant=123, now=NOW)
    # Read side by side, and in the second after another warehouse.
    list(islice(second.stock(2), 50))
    side_by_side = list(islice(zip(second.stock(1), second.customer(1), strict=False), 100))
    assert [stock for stock, _ in side_by_side] == list(islice(first.stock(1), 100))
    assert [customer for _, customer in side_by_side] == list(islice(first.customer(1), 100))


def test_another_seed_or_warehouse_gives_other_rows(rows: Rows) -> None:
    other = Rows(seed=8, c_last_constant=123, now=NOW)
    assert list(islice(rows.stock(1), 10)) != list(islice(other.stock(1), 10))
    without_key = [line.split("\t", 1)[1] for line in islice(rows.stock(1), 10)]
    assert without_key != [line.split("\t", 1)[1] for line in islice(rows.stock(2), 10)]
