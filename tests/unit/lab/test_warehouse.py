# SPDX-License-Identifier: PostgreSQL
"""The warehouse's settings, parameters, texts and figures, without a server."""

from datetime import date
from decimal import Decimal
from random import Random

import pytest

from pgflash.errors import UsageError
from pgflash_lab.warehouse import StepResult, WarehouseParameters, WarehouseResult, parse_queries
from pgflash_lab.warehouse.answers import digest_rows, plain_row, read_answers
from pgflash_lab.warehouse.data import expected_rows, part_count
from pgflash_lab.warehouse.model import SCAN_HEAVY, STREAM_ORDERS, order_key_type, refresh_orders
from pgflash_lab.warehouse.parameters import (
    COLORS,
    NATIONS,
    QUERIES,
    REGIONS,
    draw_values,
    validation_values,
)
from pgflash_lab.warehouse.texts import (
    TextError,
    fill_in,
    literal,
    parameter_names,
    read_query,
)
from support.workloads import parameters_of


def result(steps: int, *, elapsed_s: float = 4.0, streams: int = 1) -> WarehouseResult:
    return WarehouseResult(
        parameters=parameters_of(
            WarehouseParameters, scale_factor=0.5, clients=streams, refresh=True
        ),
        started_at="2026-01-02T03:04:05+00:00",
        elapsed_s=100.0,
        steps=tuple(
            StepResult(name=f"Q{n}", stream=0, started_s=0, elapsed_s=elapsed_s, rows=1)
            for n in range(steps)
        ),
    )


def test_order_keys_have_eight_bytes_where_four_do_not_hold_them() -> None:
    # Keys use 8 of every 32 numbers: the last of 1.5 million orders has the key 6,000,000.
    for scale_factor, kind in ((0.01, "integer"), (300, "integer"), (357, "integer")):
        assert order_key_type(scale_factor) == kind
        assert 6_000_000 * scale_factor < 2**31
    for scale_factor in (358, 1000):
        assert order_key_type(scale_factor) == "bigint"
        assert 6_000_000 * scale_factor > 2**31
    assert parameters_of(WarehouseParameters, scale_factor=1000, clients=1).scale_factor == 1000


def test_rows_are_made_a_gigabyte_at_a_time() -> None:
    assert [part_count(one) for one in (0.001, 1, 1.1, 1000)] == [1, 1, 2, 1000]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("all", QUERIES),
        ("scan-heavy", SCAN_HEAVY),
        ("others", (2, 8, 11, 16, 17, 20, 21, 22)),
        ("6", (6,)),
        ("18, 1,6", (1, 6, 18)),
    ],
)
def test_queries_are_named_or_numbered(text: str, queries: tuple[int, ...]) -> None:
    assert parse_queries(text) == queries


@pytest.mark.parametrize("text", ["", "0", "23", "1,,2", "six", "1;2"])
def test_what_names_no_query_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="queries"):
        parse_queries(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale_factor", 0.0),
        ("scale_factor", 1001.0),
        ("degree", 0),
        ("clients", 6),
        ("queries", ""),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        parameters_of(WarehouseParameters, **{"scale_factor": 0.1, name: value})


def test_every_stream_runs_every_query_once_in_an_order_of_its_own() -> None:
    assert all(sorted(order) == list(QUERIES) for order in STREAM_ORDERS)
    assert len(set(STREAM_ORDERS)) == len(STREAM_ORDERS)


def test_a_stream_keeps_its_order_when_queries_are_left_out() -> None:
    some = parameters_of(WarehouseParameters, scale_factor=0.1, queries="1,6,14")
    assert some.order(0) == (14, 6, 1)


@pytest.mark.parametrize("query", QUERIES)
def test_values_fit_the_text(query: int) -> None:
    wanted = parameter_names(read_query(query))
    assert set(validation_values(query, scale_factor=1)) == wanted
    for seed in range(50):
        drawn = draw_values(query, scale_factor=1, random=Random(seed))
        assert set(drawn) == wanted
        text = fill_in(read_query(query), drawn)
        assert not parameter_names(text)


@pytest.mark.parametrize(
    ("query", "name", "least", "most"),
    [
        (1, "delta_days", 60, 120),
        (2, "size", 1, 50),
        (3, "date", date(1995, 3, 1), date(1995, 3, 31)),
        (4, "date", date(1993, 1, 1), date(1997, 10, 1)),
        (5, "date", date(1993, 1, 1), date(1997, 1, 1)),
        (6, "discount", 0.02, 0.09),
        (6, "quantity", 24, 25),
        (10, "date", date(1993, 2, 1), date(1995, 1, 1)),
        (14, "date", date(1993, 1, 1), date(1997, 12, 1)),
        (18, "quantity", 312, 315),
        (19, "quantity1", 1, 10),
        (19, "quantity2", 10, 20),
        (19, "quantity3", 20, 30),
    ],
)
def test_values_are_drawn_from_the_whole_domain(
    query: int, name: str, least: object, most: object
) -> None:
    drawn = [draw_values(query, scale_factor=1, random=Random(seed))[name] for seed in range(2000)]
    assert (min(drawn), max(drawn)) == (least, most)


def test_a_fraction_shrinks_as_the_database_grows() -> None:
    assert validation_values(11, scale_factor=10)["fraction"] == pytest.approx(0.00001)


def test_a_nation_is_asked_for_with_its_region() -> None:
    for seed in range(100):
        drawn = draw_values(8, scale_factor=1, random=Random(seed))
        assert (drawn["nation"], drawn["region"]) in NATIONS


def test_lists_are_as_long_as_the_specification_has_them() -> None:
    assert len(COLORS) == len(set(COLORS)) == 92
    assert len(NATIONS) == 25
    assert {region for _, region in NATIONS} == set(REGIONS)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", "'it''s'"),
        (date(1994, 1, 1), "'1994-01-01'"),
        (0.06, "0.06"),
        (0.0001 / 0.3, "0.000333333333"),
        (7, "7"),
        ((1, 2), "1, 2"),
        (("a", "b"), "'a', 'b'"),
    ],
)
def test_values_become_literals(value: object, text: str) -> None:
    assert literal(value) == text  # type: ignore[arg-type]


def test_casts_and_times_are_no_parameters() -> None:
    assert parameter_names("SELECT x::integer, '12:30:00', :name") == {"name"}


def test_missing_and_needless_values_are_refused() -> None:
    for values in ({}, {"name": 1, "other": 2}):
        with pytest.raises(TextError):
            fill_in("SELECT :name", values)


def test_rows_are_compared_by_value_and_not_by_form() -> None:
    ours = (Decimal("1.006"), "text  ", 7, date(1995, 3, 5), None)
    theirs = ("         1.01", "text", "     7", "1995-03-05", "None")
    assert plain_row(ours) == plain_row(theirs)
    assert digest_rows([ours]) == digest_rows([theirs])


def test_query_9_is_allowed_half_a_cent_either_way() -> None:
    answer = read_answers()[9]
    rows = [list(row) for row in answer.whole]
    place = next(n for n, row in enumerate(rows) if row[:2] == ["MOROCCO", "1997"])
    assert rows[place][2] == "42698382.85"
    for profit, agrees in (("42698382.8550", True), ("42698382.8650", False)):
        rows[place][2] = profit
        assert answer.agrees([tuple(row) for row in rows]) is agrees
    rows[place][1:] = ["1998", "42698382.85"]
    assert not answer.agrees([tuple(row) for row in rows])


def test_an_answer_agrees_with_its_rows_alone() -> None:
    answer = read_answers()[6]
    assert answer.agrees([(Decimal("123141078.2283"),)])
    assert not answer.agrees([(Decimal("123141078.2383"),)])
    assert not answer.agrees([])
    assert not answer.agrees([(Decimal("123141078.2283"),)] * 2)


def test_query_17_is_allowed_the_cents_that_its_answer_is_off() -> None:
    answer = read_answers()[17]
    assert answer.agrees([(Decimal("348406.054285714286"),)])
    assert not answer.agrees([(Decimal("348406.08"),)])
    assert not answer.agrees([(None,)])


def test_the_order_of_rows_matters() -> None:
    assert digest_rows([(1,), (2,)]) != digest_rows([(2,), (1,)])
    assert digest_rows([(1, 2)]) != digest_rows([(1,), (2,)])


def test_there_is_an_answer_to_every_query() -> None:
    answers = read_answers()
    assert set(answers) == set(QUERIES)
    # As the specification prints them: query 1 has four rows, query 16 has 18,314.
    assert [answers[query].rows for query in (1, 2, 16, 22)] == [4, 100, 18_314, 7]
    assert answers[6].first == ("123141078.23",)


def test_power_is_over_the_geometric_mean_of_all_steps() -> None:
    assert result(24, elapsed_s=4.0).power == pytest.approx(3600 * 0.5 / 4.0)


def test_power_is_not_told_of_a_part() -> None:
    assert result(22).power is None
    assert result(24, streams=2).power is None


def test_throughput_is_of_several_streams() -> None:
    assert result(48, streams=2).throughput == pytest.approx(2 * 22 * 3600 / 100 * 0.5)
    assert result(24).throughput is None


def test_tables_grow_with_the_scale_factor() -> None:
    rows = expected_rows(0.1)
    assert (rows["nation"], rows["orders"], rows["part"]) == (25, 150_000, 20_000)
    assert refresh_orders(1) == 1500
