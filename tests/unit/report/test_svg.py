# SPDX-License-Identifier: PostgreSQL
"""The charts of a period: the drawing agrees with the numbers."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgflash.report import svg

FRAME_TOP, FRAME_BOTTOM = 12.0, 240.0 - 24.0


def series(name: str, *values: float | None, pattern: int = 0) -> svg.Series:
    return svg.Series(name=name, colour="#0072b2", pattern=pattern, values=values)


def spans(*begins: int) -> list[svg.Span]:
    """Return spans of a minute each."""
    return [(float(begin), begin + 60.0) for begin in begins]


def outlines(drawing: str) -> list[list[list[tuple[float, float]]]]:
    """Return the points of each area's ranges, in the order in which areas were drawn."""
    found = []
    for path in re.findall(r'<path d="(M[^"]*Z)"', drawing):
        ranges = [one for one in path.split("Z") if one]
        found.append(
            [[(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", one)]
             for one in ranges]
        )  # fmt: skip
    return found


def labels(drawing: str) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]*)</text>", drawing)


def height(points: list[tuple[float, float]], place: int) -> float:
    """Return how high an area is over one of its moments, in pixels."""
    count = len(points) // 4
    return points[len(points) - 1 - 2 * place][1] - points[2 * place][1] if count else 0.0


def test_areas_are_as_high_as_their_values_and_stand_on_each_other() -> None:
    times = spans(0, 60, 120)
    drawn = outlines(svg.areas("p", times, [series("a", 1, 2, 3), series("b", 4, 3, 2)], title="t"))
    (first,), (second,) = drawn
    pixel = (FRAME_BOTTOM - FRAME_TOP) / 5  # the sums are 5, and so is the axis' end
    for place, (a, b) in enumerate([(1, 4), (2, 3), (3, 2)]):
        assert height(first, place) == pytest.approx(a * pixel, abs=0.2)
        assert height(second, place) == pytest.approx(b * pixel, abs=0.2)
        assert second[2 * place][1] == pytest.approx(FRAME_TOP, abs=0.1)


def test_missing_moments_stay_empty() -> None:
    times = spans(0, 60, 120, 600, 660)
    ((before, after),) = outlines(svg.areas("p", times, [series("a", 1, 1, 1, 1, 1)], title="t"))
    first_end = max(x for x, _ in before)
    second_begin = min(x for x, _ in after)
    # Pixels 58 to 858 are seconds 0 to 720: one range ends at 180, the other begins at 600.
    assert first_end == pytest.approx(58 + 800 * 180 / 720, abs=0.2)
    assert second_begin == pytest.approx(58 + 800 * 600 / 720, abs=0.2)


def test_a_line_runs_in_steps_and_has_a_gap_where_a_value_is_not_known() -> None:
    drawing = svg.lines(spans(0, 60, 120, 180), [series("a", 5, 10, None, 5)], title="t")
    (path,) = re.findall(r'<path d="(M[^"]*)" stroke="#0072b2"', drawing)
    # 58 to 408 pixels are four minutes; 12 to 146 are the values 10 to 0.
    quarter = (408 - 58) / 4
    numbers = [float(one) for one in re.findall(r"[\d.]+", path)]
    assert re.sub(r"[\d.]+", "", path) == "M,HVHM,H"
    assert numbers == pytest.approx(
        [58, 79, 58 + quarter, 12, 58 + 2 * quarter, 58 + 3 * quarter, 79, 408], abs=0.1
    )


def test_light_colours_are_darker_as_lines() -> None:
    light = svg.Series(name="a", colour="#a7c7e7", pattern=0, values=[1.0])
    assert "#a7c7e7" not in svg.lines(spans(0), [light], title="t")
    assert "#0072b2" in svg.lines(spans(0), [series("a", 1)], title="t")


def test_one_moment_is_drawn() -> None:
    assert outlines(svg.areas("p", spans(0), [series("a", 1)], title="t"))
    assert '<path d="M58.0' in svg.lines(spans(0), [series("a", 1)], title="t")


def test_nothing_at_all_is_drawn_as_axes() -> None:
    assert "<svg" in svg.areas("p", [], [], title="t")
    assert "<svg" in svg.lines(spans(0, 60), [series("a", None, None)], title="t")
    assert "<svg" in svg.columns("p", [], [], title="t")


def test_shares_end_at_a_hundred_percent() -> None:
    drawing = svg.areas("p", spans(0, 60), [series("a", 0.3, 0.3)], title="t", share=True)
    assert "100 %" in labels(drawing)
    (((_, y), *_),) = outlines(drawing)[0]
    assert y == pytest.approx(FRAME_BOTTOM - 0.3 * (FRAME_BOTTOM - FRAME_TOP), abs=0.2)


def test_bars_are_as_high_as_their_counts() -> None:
    drawing = svg.columns("p", ["1", "2"], [series("a", 50, 100), series("b", 25, 0)], title="t")
    heights = [float(h) for h in re.findall(r'<rect [^>]*height="([\d.]+)" fill="url', drawing)]
    assert len(heights) == 3  # none for nothing
    assert heights[0] / heights[1] == pytest.approx(0.5, abs=0.01)
    assert heights[2] / heights[1] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(("count", "named"), [(22, 22), (60, 20)])
def test_as_many_columns_are_named_as_there_is_room_for(count: int, named: int) -> None:
    queries = [f"Q{number}" for number in range(1, count + 1)]
    drawing = svg.columns("p", queries, [series("a", *[1.0] * count)], title="t")
    assert len([one for one in labels(drawing) if one.startswith("Q")]) == named
    # Words that are as wide as a quarter of the drawing: only some of them fit.
    words = ["w" * 30] * 8
    drawing = svg.columns("p", words, [series("a", *[1.0] * 8)], title="t")
    assert labels(drawing).count(words[0]) in (2, 3)


def test_long_periods_name_the_days() -> None:
    times = [(3600.0 * hour, 3600.0 * (hour + 1)) for hour in range(72)]
    found = labels(svg.areas("p", times, [series("a", *[1.0] * 72)], title="t"))
    assert {"01 Jan", "02 Jan", "03 Jan"} <= set(found)


def test_names_are_escaped() -> None:
    drawing = svg.areas("p", spans(0, 60), [series("<b>&\"'", 1, 1)], title='"><script>')
    assert "<b>" not in drawing
    assert "<script>" not in drawing


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_steps_are_round_and_neither_few_nor_many(largest: float) -> None:
    step = svg.nice_step(largest, 5)
    assert 1.9 <= largest / step <= 5.001
    digits = f"{step:.6e}".split("e")[0]
    assert digits in ("1.000000", "2.000000", "5.000000")


def positions(drawing: str, values: list[str]) -> list[float]:
    """Return where the marks of an axis are, from the left."""
    found = {text: float(x) for x, text in re.findall(r'<text x="([\d.]+)"[^>]*>([^<]*)<', drawing)}
    return [found[one] for one in values]


def test_each_step_of_a_logarithmic_axis_is_a_multiple_of_the_one_before() -> None:
    names = [series("p50", 2.0, 20.0), series("p99", 90.0, 300.0)]
    drawing = svg.ranges(["a", "b"], names, title="t", logarithmic=True)
    ends = ["2", "5", "10", "20", "50", "100", "200", "500"]  # from 2 to the step above 300
    two, _, ten, _, _, hundred, _, last = positions(drawing, ends)
    assert (hundred - ten) / (last - two) == pytest.approx(1 / math.log10(250), abs=0.002)
    middles = [float(x) for x in re.findall(r'transform="translate\(([\d.]+) ', drawing)]
    assert middles[0] == pytest.approx(two, abs=0.1)
    assert middles[2] == pytest.approx(positions(drawing, ["20"])[0], abs=0.1)


def test_a_logarithmic_axis_of_many_powers_names_only_these() -> None:
    drawing = svg.lines(
        spans(0, 60), [series("a", 0.02, 30_000.0)], title="t", clock=False, logarithmic=True
    )
    assert {"0.1", "1", "10", "100", "1,000", "10k"} <= set(labels(drawing))
    assert "20" not in labels(drawing)


def test_what_has_no_logarithm_is_drawn_at_the_foot_or_left_out() -> None:
    drawing = svg.lines(spans(0, 60), [series("a", 0.0, 5.0)], title="t", logarithmic=True)
    assert "nan" not in drawing
    assert f",{170 - 24}.0" in drawing
    drawing = svg.ranges(["a"], [series("p50", 0.0)], title="t", logarithmic=True)
    assert "transform" not in drawing


def test_a_bar_has_its_number_and_a_dot_for_each_measurement() -> None:
    one = svg.Series(
        name="here", colour="#0072b2", pattern=0, values=[2.0], dots=[(1.5, 2.0, 2.5)], texts=["2x"]
    )
    drawing = svg.bars("p", ["a"], [one], title="t", texts=str)
    ((left, width),) = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawing)
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', drawing)]
    assert [(x - float(left)) / float(width) for x in dots] == pytest.approx(
        [0.75, 1.0, 1.25], abs=0.01
    )
    assert "2x" in labels(drawing)


def test_shares_of_a_bar_lie_side_by_side() -> None:
    parts = [series("a", 0.25, 1.0), series("b", 0.75, None, pattern=1)]
    drawing = svg.shares("p", ["x", "y"], parts, title="t", share=True)
    boxes = [
        (float(x), float(w))
        for x, w in re.findall(r'<rect x="([\d.]+)".*?width="([\d.]+)"', drawing)
    ]
    first, second, whole = boxes
    assert first[0] + first[1] == pytest.approx(second[0], abs=0.11)
    assert first[1] / whole[1] == pytest.approx(0.25, abs=0.001)
    assert second[1] / whole[1] == pytest.approx(0.75, abs=0.001)
    assert "100 %" in labels(drawing)


def test_a_line_of_many_values_runs_through_the_middles_of_its_spans() -> None:
    times = spans(*range(0, 60 * 61, 60))
    drawing = svg.lines(times, [series("a", *[1.0] * 61)], title="t", width=svg.WIDE)
    (path,) = re.findall(r'<path d="(M[^"]*)" stroke="#0072b2"', drawing)
    assert path.count("L") == 61
    assert "V" not in path
    second = float(re.findall(r"L([\d.]+),", path)[1])
    assert second == pytest.approx(58 + 800 * 1.5 / 61, abs=0.1)


def test_a_moment_is_a_vertical_line_with_its_text_unless_it_is_outside() -> None:
    marks = [(60.0, "here"), (999.0, "not here")]
    drawing = svg.lines(spans(0, 60, 120, 180), [series("a", 5, 10, 7, 5)], title="t", marks=marks)
    (at,) = re.findall(r'<path d="M([\d.]+),12 V146"', drawing)
    assert float(at) == pytest.approx(58 + (408 - 58) / 4, abs=0.1)
    assert "here" in labels(drawing)
    assert "not here" not in labels(drawing)
