# SPDX-License-Identifier: PostgreSQL
"""The parameters of a failover."""

import pytest

from pgflash_lab.attempt import needed_bytes
from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.parameters import ScenarioError
from pgflash_lab.scenario import load_scenario


def test_patronis_timings_must_go_together() -> None:
    changes = {"ttl_s": "20", "loop_wait_s": "10"}
    with pytest.raises(ScenarioError, match="ttl_s must be at least"):
        load_scenario("failover", changes=changes)
    with pytest.raises(ScenarioError, match="ttl_s must be at least 20"):
        load_scenario("failover", changes={"ttl_s": "10"})


def test_clients_that_pause_are_refused() -> None:
    with pytest.raises(ScenarioError, match="think_factor must be 0"):
        load_scenario("failover", changes={"think_factor": "0.1"})


def test_the_flash_of_a_leader_that_hands_over_is_not_erased() -> None:
    with pytest.raises(ScenarioError, match="erased is for a leader that is killed"):
        load_scenario("ephemeral-wal", changes={"planned": "true"})


@pytest.mark.parametrize("network_ms", ["-1", "1001"])
def test_a_network_that_is_none_is_refused(network_ms: str) -> None:
    with pytest.raises(ScenarioError, match="network_ms must lie between 0 and 1000"):
        load_scenario("failover", changes={"network_ms": network_ms})


def test_the_warm_up_is_the_same_load_at_full_speed() -> None:
    parameters = load_scenario("failover", changes={"rate_tps": "5"}).parameters
    assert isinstance(parameters, FailoverParameters)
    plain = parameters.before_it(measure_s=7)
    assert (plain.measure_s, plain.rate_tps) == (7, 0)
    assert (plain.mix, plain.warehouses) == (parameters.mix, parameters.warehouses)


def test_each_of_three_servers_has_the_database() -> None:
    assert load_scenario("failover").parameters.servers == 3
    assert load_scenario("pgbench").parameters.servers == 1


def test_three_servers_of_the_demo_fit_into_memory_beside_the_machine_that_runs_it() -> None:
    needed = needed_bytes(load_scenario("failover", preset="demo"))
    assert 3 * 4 * 105 * 2**20 < needed < 8 * 2**30
