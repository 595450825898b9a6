# SPDX-License-Identifier: PostgreSQL
"""The oltp workload's settings and mix."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.errors import UsageError
from pgflash_lab.conditions import split_conditions
from pgflash_lab.oltp import Access, Mix, OltpParameters
from pgflash_lab.oltp.driver import choose_constants, pgbench_command
from pgflash_lab.oltp.rows import is_run_constant_allowed
from pgflash_lab.oltp.scripts import SCRIPTS, TRANSACTIONS, Script, weight_of
from pgflash_lab.oltp.sql_files import read_sql, read_terminal
from support.workloads import parameters_of


@pytest.mark.parametrize("name", ["warehouses", "clients", "measure_s"])
def test_impossible_settings_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least 1"):
        parameters_of(OltpParameters, **{"warehouses": 1, name: 0})


@pytest.mark.parametrize("name", ["rate_tps", "think_factor"])
def test_a_pace_below_nothing_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must not be negative"):
        parameters_of(OltpParameters, warehouses=1, **{name: -0.1})


def test_a_rate_and_clients_that_think_exclude_each_other() -> None:
    paced = parameters_of(OltpParameters, warehouses=1, rate_tps=5)
    with pytest.raises(UsageError, match="rate_tps must be 0 where clients think"):
        replace(paced, think_factor=1)
    assert paced.unpaced() == replace(paced, rate_tps=0)


def test_the_mix_is_45_43_4_4_4() -> None:
    weights: Counter[str] = Counter()
    for script in SCRIPTS:
        weights[script.transaction] += script.weight
    assert weights == {
        "new_order": 4_500,
        "payment": 4_300,
        "order_status": 400,
        "delivery": 400,
        "stock_level": 400,
    }
    assert set(TRANSACTIONS) == set(weights)


def test_rollbacks_and_choices_by_name_have_their_share() -> None:
    weight = {script.name: script.weight for script in SCRIPTS}
    assert weight["new_order_rollback"] * 100 == 4_500
    assert weight["payment_by_name"] * 100 == 60 * 4_300
    assert weight["order_status_by_name"] * 100 == 60 * 400


def test_every_mix_is_complete_and_keeps_the_specification_s_shares() -> None:
    for mix in Mix:
        weight = {script.name: weight_of(script, mix) for script in SCRIPTS}
        assert sum(weight.values()) == 10_000
        assert weight["new_order_rollback"] * 99 == weight["new_order"]
        for name in ("payment", "order_status"):
            assert weight[f"{name}_by_name"] * 2 == weight[f"{name}_by_id"] * 3
    writes = ("new_order", "new_order_rollback", "payment_by_name", "payment_by_id", "delivery")
    assert sum(weight[name] for name in writes) == 1_000


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_transaction_is_one_statement(script: Script) -> None:
    text = read_terminal(script.file)
    statements = [line for line in text.splitlines() if line.endswith(";")]
    assert len(statements) == 1
    assert statements[0].startswith(("CALL oltp.", "SELECT "))


def test_all_conditions_but_the_eleventh_are_checked() -> None:
    assert [number for number, _, _ in split_conditions(read_sql("consistency.sql"))] == [
        *range(1, 11),
        12,
    ]


def test_the_constants_of_a_run_fit_its_load() -> None:
    for seed in range(20):
        constants = choose_constants(seed=seed, load_constant=200)
        assert constants == choose_constants(seed=seed, load_constant=200)
        assert is_run_constant_allowed(run=constants.name, load=200)


def command_of(parameters: OltpParameters, folder: Path) -> list[str]:
    return pgbench_command(
        Path("/bin/pgbench"),
        "dbname=x",
        parameters,
        choose_constants(seed=1, load_constant=50),
        scripts_dir=folder,
        log_prefix=folder / "log",
        ramp_up_s=5,
    )


def test_pgbench_is_asked_for_the_whole_run_and_every_script(tmp_path: Path) -> None:
    parameters = parameters_of(OltpParameters, warehouses=4, clients=3, measure_s=20)
    command = command_of(parameters, tmp_path)
    assert command[0] == "/bin/pgbench"
    assert command[-1] == "dbname=x"
    assert {"--client=3", "--time=25", "--define=customer_a=1023"} <= set(command)
    assert [word for word in command if word.startswith("--file=")] == [
        f"--file={tmp_path / script.file}@{script.weight}" for script in SCRIPTS
    ]
    assert not any("rate" in word or "think" in word for word in command)


def test_pgbench_is_told_pace_and_access(tmp_path: Path) -> None:
    parameters = parameters_of(OltpParameters, warehouses=4, rate_tps=2.5, access=Access.UNIFORM)
    command = set(command_of(parameters, tmp_path))
    assert "--rate=2.5" in command
    assert {f"--define={name}_a=0" for name in ("name", "customer", "item")} <= command
    thinking = replace(parameters.unpaced(), think_factor=0.5)
    assert {"--define=think_factor=0.5", "--define=resting=2"} <= set(
        command_of(thinking, tmp_path)
    )
