# SPDX-License-Identifier: PostgreSQL
"""The page of paper 002: which verdicts follow from which runs."""

import dataclasses
from collections.abc import Mapping

import pytest

from pgflash.model.awr import AwrReport, Source, Unit
from pgflash_lab.model.exhibit import PaperPage, Verdict
from pgflash_lab.model.run import Approach, Attempt, DiskSecond, Run, Step
from pgflash_lab.report.paper import build_paper, render_paper_html, render_paper_text
from support.reports import column, report, table
from support.runs import BASELINE, attempt, run_of

ARRAY = Approach(name="baseline", title="Everything on the array")
FLASH = Approach(name="all-on-flash", title="Everything on flash", data="flash")
TEMP = Approach(name="temp-on-flash", title="Temporary files on flash", temp="flash")


def degree(approach: Approach, count: int) -> Approach:
    return dataclasses.replace(
        approach, name=f"{approach.data}-{count}", changes={"degree": str(count)}
    )


def small(approach: Approach) -> Approach:
    return dataclasses.replace(
        approach, name=f"{approach.data}-small", changes={"scale_factor": "0.1"}
    )


def queries(
    approach: Approach,
    times: Mapping[str, float],
    *,
    temp_s: float = 1.0,
    mark: str = "abc",
    read_mb: float = 100.0,
    read_ms: float = 7.0,
) -> Attempt:
    """Return an attempt whose queries took these times."""
    duration_s = sum(times.values())
    steps: list[Step] = []
    for name, elapsed_s in times.items():
        began_s = sum(one.elapsed_s for one in steps)
        steps.append(
            Step(name=name, started_s=began_s, elapsed_s=elapsed_s, detail=f"answer {mark}{name}")
        )
    facts = {f"{name}.work_s": 1.0 for name in times}
    facts |= {f"{name}.wait_s": elapsed_s - 1.0 for name, elapsed_s in times.items()}
    for name in times:
        facts |= {f"{name}.temp_{fact}_s": temp_s for fact in ("read", "write")}
        facts |= {f"{name}.temp_{fact}_bytes": 1e6 for fact in ("read", "write")}
    return dataclasses.replace(
        attempt(BASELINE, tpm=60 * len(times) / duration_s),
        approach=approach.name,
        workload="warehouse",
        duration_s=duration_s,
        steps=tuple(steps),
        facts=facts,
        disk_seconds=tuple(
            DiskSecond(
                at_s=at_s,
                elapsed_s=1.0,
                role=approach.data,
                reads=100,
                read_bytes=int(read_mb * 2**20),
                writes=0,
                write_bytes=0,
                read_ms=read_ms,
                write_ms=0.0,
            )
            for at_s in range(3)
        ),
    )


ON_ARRAY = {"Q1": 10.0, "Q6": 10.0, "Q18": 20.0, "Q20": 10.0}
ON_FLASH = {"Q1": 5.0, "Q6": 5.0, "Q18": 4.0, "Q20": 6.0}


def page_of(
    *both: tuple[Approach, Attempt], reports: Mapping[str, AwrReport] | None = None
) -> PaperPage:
    run: Run = run_of(
        *(one for _, one in both),
        approaches=tuple(approach for approach, _ in both),
        parameters={"degree": "2", "scale_factor": "0.3"},
    )
    page = build_paper("002", run, reports or {})
    assert page is not None
    return page


def main_pair() -> list[tuple[Approach, Attempt]]:
    return [
        (ARRAY, queries(ARRAY, ON_ARRAY)),
        (FLASH, queries(FLASH, ON_FLASH, read_mb=200, read_ms=1.6)),
    ]


def says(page: PaperPage, exhibit: str) -> str:
    return page.exhibit(exhibit).sentence


def test_queries_agree_where_the_ratio_and_query_18_are_the_papers() -> None:
    page = page_of(*main_pair())
    assert page.exhibit("fig-4").verdict is Verdict.AGREES
    assert "50.0 s on the array and 20.0 s on flash: 2.50 times faster" in page.sentences[0]
    assert "Query 18 gains most, as in the paper: 5 times in the paper, 5.00 here." in says(
        page, "fig-4"
    )


def test_refresh_functions_are_no_queries() -> None:
    array, flash = ({"RF1": 3.0, **times, "RF2": 4.0} for times in (ON_ARRAY, ON_FLASH))
    page = page_of((ARRAY, queries(ARRAY, array)), (FLASH, queries(FLASH, flash)))
    assert "4 queries took 50.0 s on the array and 20.0 s on flash" in page.sentences[0]
    assert "All 4 queries, times faster on flash" in says(page, "fig-4")
    ours = page.exhibit("fig-4").ours
    assert ours is not None
    assert [row.cells[0] for row in ours.rows] == ["Q1", "Q6", "Q18", "Q20", "all"]


def test_queries_that_gain_little_differ() -> None:
    slow = {name: elapsed_s / 1.2 for name, elapsed_s in ON_ARRAY.items()}
    page = page_of((ARRAY, queries(ARRAY, ON_ARRAY)), (FLASH, queries(FLASH, slow)))
    assert page.exhibit("fig-4").verdict is Verdict.PARTLY  # the answers are the same
    assert "not within a factor of 1.5" in says(page, "fig-4")


def test_a_different_answer_is_told() -> None:
    page = page_of(
        (ARRAY, queries(ARRAY, ON_ARRAY)), (FLASH, queries(FLASH, ON_FLASH, mark="other"))
    )
    assert "different answers to Q1, Q6, Q18, Q20: one is wrong" in says(page, "fig-4")


def test_answers_of_other_sizes_are_not_compared() -> None:
    page = page_of(
        *main_pair(), (small(ARRAY), queries(small(ARRAY), ON_ARRAY, mark="of another size"))
    )
    assert "Every approach gave the same answers." in says(page, "fig-4")


def test_queries_of_a_pair_of_their_own_stand_in_the_same_figure() -> None:
    array, flash = (
        dataclasses.replace(one, name=f"{one.data}-others", changes={"queries": "others"})
        for one in (ARRAY, FLASH)
    )
    others = [(array, queries(array, {"Q2": 9.0})), (flash, queries(flash, {"Q2": 3.0}))]
    page = page_of(*main_pair(), *others)
    ours = page.exhibit("fig-4").ours
    assert ours is not None
    assert [row.cells[0] for row in ours.rows] == ["Q1", "Q2", "Q6", "Q18", "Q20", "all"]
    assert ours.rows[1].cells[1:6] == (9.0, 3.0, 3.0, 1.0, 8.0)
    assert page.sentences[0].startswith("5 queries took 59.0 s on the array and 23.0 s on flash")
    assert page.exhibit("fig-7").verdict is Verdict.NOT_SHOWN


def test_the_table_of_queries_adds_up() -> None:
    ours = page_of(*main_pair()).exhibit("fig-4").ours
    assert ours is not None
    rows = {row.cells[0]: row.cells for row in ours.rows}
    assert list(rows) == ["Q1", "Q6", "Q18", "Q20", "all"]
    assert rows["Q18"][1:6] == (20.0, 4.0, 5.0, 1.0, 19.0)
    assert rows["all"][1:4] == (50.0, 20.0, 2.5)
    assert rows["all"][4] == 4.0


@pytest.mark.parametrize(
    ("figure", "changed", "title"),
    [("fig-7", lambda one: degree(one, 4), "degree"), ("fig-8", small, "scale factor")],
)
def test_pairs_stand_side_by_side(figure: str, changed: object, title: str) -> None:
    assert callable(changed)
    array, flash = changed(ARRAY), changed(FLASH)
    halves = {name: elapsed_s / 2 for name, elapsed_s in ON_FLASH.items()}
    pair = [(array, queries(array, ON_FLASH)), (flash, queries(flash, halves))]
    page = page_of(*main_pair(), *pair)
    ours = page.exhibit(figure).ours
    assert ours is not None
    assert sorted(str(row.cells[3]) for row in ours.rows) == ["2.0", "2.5"]
    assert page.exhibit(figure).verdict is Verdict.AGREES
    alone = page_of(*main_pair())
    assert alone.exhibit(figure).verdict is Verdict.NOT_SHOWN
    assert title in says(alone, figure)


def test_only_queries_that_all_ran_are_compared() -> None:
    array, flash = degree(ARRAY, 4), degree(FLASH, 4)
    few = [{name: one[name] for name in ("Q1", "Q6")} for one in (ON_ARRAY, ON_FLASH)]
    page = page_of(*main_pair(), (array, queries(array, few[0])), (flash, queries(flash, few[1])))
    ours = page.exhibit("fig-7").ours
    assert ours is not None
    assert ours.title == "Elapsed time of 2 queries"
    assert [row.cells[1:4] for row in ours.rows] == [(20.0, 10.0, 2.0)] * 2


def test_flash_that_is_slower_at_one_degree_is_told() -> None:
    array, flash = degree(ARRAY, 4), degree(FLASH, 4)
    page = page_of(
        *main_pair(), (array, queries(array, ON_FLASH)), (flash, queries(flash, ON_ARRAY))
    )
    assert "Flash is not faster at degree of parallelism 4." in says(page, "fig-7")
    assert page.exhibit("fig-7").verdict is Verdict.PARTLY


def test_devices_over_time_agree_by_throughput_and_latency() -> None:
    page = page_of(*main_pair())
    for figure in ("fig-5", "fig-6"):
        assert page.exhibit(figure).verdict is Verdict.AGREES
        assert len(page.exhibit(figure).charts) == 2
    ours = page.exhibit("fig-6").ours
    assert ours is not None
    assert [row.cells[1:] for row in ours.rows] == [(200.0, 200.0), (1.6, 1.6)]


def test_a_run_without_seconds_of_its_devices_says_so() -> None:
    pair = [(one, dataclasses.replace(took, disk_seconds=())) for one, took in main_pair()]
    page = page_of(*pair)
    assert page.exhibit("fig-5").verdict is Verdict.NOT_SHOWN
    assert "second by second" in says(page, "fig-5")


def test_temporary_files_on_flash_are_compared_with_the_array() -> None:
    faster = {name: elapsed_s - 1 for name, elapsed_s in ON_ARRAY.items()}
    moved = queries(TEMP, faster, temp_s=0.1)
    base = queries(ARRAY, ON_ARRAY, temp_s=1.0)
    page = page_of((ARRAY, base), (TEMP, moved))
    assert page.exhibit("temp").verdict is Verdict.AGREES
    assert "50.0 s before, 46.0 s after" in says(page, "temp")
    assert page.exhibit("fig-4").verdict is Verdict.NOT_SHOWN


def test_db_time_is_work_and_wait_from_the_reports() -> None:
    def awr(work_s: float, wait_s: float) -> AwrReport:
        classes = table(
            "wait-classes",
            [
                column("wait_class", Unit.TEXT, source=None),
                column("total_s", Unit.SECONDS, source=Source.EXACT),
                column("share", Unit.SHARE, source=Source.EXACT),
            ],
            ("User I/O", wait_s, wait_s / (work_s + wait_s)),
            ("CPU", work_s, work_s / (work_s + wait_s)),
            ("DB time", work_s + wait_s, 1.0),
        )
        return report(classes)

    reports = {"baseline": awr(33.0, 67.0), "all-on-flash": awr(30.0, 10.0)}
    page = page_of(*main_pair(), reports=reports)
    equation = page.exhibit("db-time")
    assert equation.verdict is Verdict.AGREES
    assert equation.ours is not None
    assert equation.ours.rows[0].cells == ("array", 100.0, 33.0, 67.0, 0.33)
    assert page.exhibit("table-3").verdict is Verdict.AGREES
    assert page_of(*main_pair()).exhibit("db-time").verdict is Verdict.NOT_SHOWN


def test_a_page_of_an_interrupted_run_is_printed() -> None:
    for both in ([], main_pair()[:1]):
        page = page_of(*both)
        assert page.exhibit("fig-7").verdict is Verdict.NOT_SHOWN
        assert "Figure 4" in render_paper_text(page)
    assert "<svg" in render_paper_html(page_of(*main_pair()))


def test_a_run_without_a_query_in_common_has_a_page() -> None:
    others = {name.replace("Q", "RF"): elapsed_s for name, elapsed_s in ON_FLASH.items()}
    page = page_of((ARRAY, queries(ARRAY, ON_ARRAY)), (FLASH, queries(FLASH, others)))
    assert "no query that ran both" in says(page, "fig-4")
    small_pair = [(small(one), queries(small(one), {"Q2": 1.0})) for one in (ARRAY, FLASH)]
    page = page_of(*main_pair(), *small_pair)
    assert page.exhibit("fig-8").verdict is Verdict.NOT_SHOWN
