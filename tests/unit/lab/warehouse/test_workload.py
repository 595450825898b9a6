# SPDX-License-Identifier: PostgreSQL
"""The warehouse as the lab sees it: settings of an approach, figures of a result."""

import dataclasses

import pytest

from pgflash_lab.model.run import Approach
from pgflash_lab.parameters import ScenarioError
from pgflash_lab.scenario import load_scenario
from pgflash_lab.warehouse import StepResult, Use, WarehouseParameters, WarehouseResult
from pgflash_lab.warehouse.workload import WarehouseWorkload, figures

WORKLOAD = WarehouseWorkload()


def parameters(**changes: object) -> WarehouseParameters:
    scenario = load_scenario("warehouse").parameters
    assert isinstance(scenario, WarehouseParameters)
    return dataclasses.replace(scenario, **changes)  # type: ignore[arg-type]


def use(*, work_s: float, read_s: float, temp_s: float = 0.0) -> Use:
    return Use(
        work_s=work_s, wait_s=read_s + temp_s, reads=10, read_bytes=81_920, read_s=read_s,
        temp_reads=0, temp_read_bytes=0, temp_read_s=0.0,
        temp_writes=1, temp_write_bytes=8192, temp_write_s=temp_s,
    )  # fmt: skip


def result(**changes: object) -> WarehouseResult:
    steps = (
        StepResult(
            name="Q6", stream=0, started_s=0.0, elapsed_s=3.0, rows=1, digest="ab" * 32,
            use=use(work_s=1.0, read_s=2.0),
        ),
        StepResult(
            name="Q1", stream=0, started_s=3.0, elapsed_s=1.0, rows=4, digest="cd" * 32,
            use=use(work_s=0.5, read_s=0.25, temp_s=0.25),
        ),
    )  # fmt: skip
    whole = WarehouseResult(
        parameters=parameters(queries="1,6"),
        started_at="2026-01-02T03:04:05+00:00",
        elapsed_s=4.0,
        steps=steps,
    )
    return dataclasses.replace(whole, **changes)  # type: ignore[arg-type]


def test_a_database_is_found_again_by_its_scale_factor_alone() -> None:
    one = WORKLOAD.key(parameters())
    assert one == WORKLOAD.key(parameters(degree=4, queries="others", work_mem="64MB", seed=7))
    assert one != WORKLOAD.key(parameters(scale_factor=0.2))


def test_the_planner_is_told_of_the_device_that_holds_the_data() -> None:
    costs = parameters(array_random_page_cost=40.0, flash_random_page_cost=1.5)
    for data, cost in (("array", "40"), ("flash", "1.5")):
        approach = Approach(name="one", title="One", data=data)
        settings = WORKLOAD.settings(costs, approach, archive=None)
        assert settings["random_page_cost"] == cost
        assert settings["effective_cache_size"] == costs.shared_buffers


def test_there_are_workers_for_every_stream() -> None:
    approach = Approach(name="one", title="One")
    settings = WORKLOAD.settings(parameters(degree=4, clients=3), approach, archive=None)
    assert settings["max_parallel_workers"] == "9"
    assert int(settings["max_worker_processes"]) > 9


@pytest.mark.parametrize(
    "changes",
    [
        {"scale_factor": 0.0},
        {"queries": "some"},
        {"degree": 0},
        {"clients": 6},
        {"array_random_page_cost": 0.0},
        {"work_mem": "much"},
    ],
)
def test_parameters_that_cannot_be_run_are_refused(changes: dict[str, object]) -> None:
    text = {name: str(value) for name, value in changes.items()}
    with pytest.raises(ScenarioError):
        load_scenario("warehouse", changes=text)


def test_a_result_is_a_duration_with_steps() -> None:
    found = figures(result())
    assert (found.duration_s, found.measured_s, found.transactions) == (4.0, 4.0, 2)
    assert found.tpm == 30.0
    assert [(one.name, one.elapsed_s, one.rows) for one in found.steps] == [
        ("Q6", 3.0, 1),
        ("Q1", 1.0, 4),
    ]
    assert [one.db_time_s for one in found.steps] == [3.0, 1.0]
    assert found.steps[0].detail == "answer abababababab"
    assert (found.latency.max_ms, found.latency.mean_ms) == (3000.0, 2000.0)


def test_percentiles_are_nearest_rank() -> None:
    (first, _) = result().steps
    times_s = (7, 1, 14, 2, 13, 3, 12, 4, 11, 5, 10, 6, 9, 8)
    steps = tuple(dataclasses.replace(first, elapsed_s=float(time_s)) for time_s in times_s)
    latency = figures(result(steps=steps, elapsed_s=105.0)).latency
    # Seven of the fourteen take 7 s or less; 90 % of them are 12.6, so the 13th; 95 % are 13.3.
    assert (latency.p50_ms, latency.p90_ms, latency.p95_ms) == (7000.0, 13000.0, 14000.0)


def test_refresh_functions_are_steps_and_no_queries() -> None:
    refresh = StepResult(name="RF1", stream=0, started_s=4.0, elapsed_s=9.0, rows=15)
    found = figures(result(steps=(*result().steps, refresh), elapsed_s=13.0))
    assert [one.name for one in found.steps] == ["Q6", "Q1", "RF1"]
    assert found.transactions == found.transactions_all == found.latency.count == 2
    assert found.tpm == pytest.approx(60 * 2 / 13)
    assert found.latency.max_ms == 3000.0


def test_facts_are_by_step_and_summed_up() -> None:
    facts = figures(result()).facts
    assert facts["Q1.temp_write_s"] == 0.25
    assert (facts["work_s"], facts["wait_s"], facts["read_bytes"]) == (1.5, 2.5, 163_840)
    assert "power" not in facts


def test_nothing_is_said_of_work_that_nobody_measured() -> None:
    unknown = tuple(
        dataclasses.replace(one, use=dataclasses.replace(one.use, work_s=None))
        for one in result().steps
        if one.use is not None
    )
    found = figures(result(steps=unknown))
    assert "work_s" not in found.facts
    assert [one.db_time_s for one in found.steps] == [None, None]


def test_steps_of_several_streams_say_whose_they_are() -> None:
    streams = tuple(
        dataclasses.replace(one, stream=number, use=None)
        for number, one in enumerate(result().steps, start=1)
    )
    found = figures(result(parameters=parameters(clients=2), steps=streams))
    assert [one.name for one in found.steps] == ["Q6 of stream 1", "Q1 of stream 2"]


def test_an_answer_is_marked_unless_others_change_the_database_meanwhile() -> None:
    for streams, refresh, marked in ((1, True, True), (2, False, True), (2, True, False)):
        changed = parameters(clients=streams, refresh=refresh)
        details = [one.detail for one in figures(result(parameters=changed)).steps]
        assert all(details) is marked
