# SPDX-License-Identifier: PostgreSQL
"""The oltp workload's settings, mix and stored results."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pgflash.errors import UsageError
from pgflash_lab.conditions import split_conditions
from pgflash_lab.oltp import DISCLAIMER, Access, Mix, OltpConfig, OltpResult, SecondPoint
from pgflash_lab.oltp.driver import choose_constants, pgbench_command
from pgflash_lab.oltp.measure import judge_share, summarize
from pgflash_lab.oltp.rows import is_run_constant_allowed
from pgflash_lab.oltp.scripts import SCRIPTS, TRANSACTIONS, Script, weight_of
from pgflash_lab.oltp.sql_files import read_sql, read_terminal


def result() -> OltpResult:
    latencies = tuple(summarize(name, [1_000, 2_500, 40_000]) for name in ("all", "delivery"))
    assert None not in latencies
    return OltpResult(
        config=OltpConfig(access=Access.UNIFORM, rate_tps=12.5),
        started_at="2026-01-02T03:04:05+00:00",
        c_last_constant=1,
        c_customer_constant=2,
        c_item_constant=3,
        elapsed_s=12.0,
        window_s=10.0,
        transactions=3,
        tpm=18.0,
        new_orders=2,
        nopm=12.0,
        new_orders_acknowledged=5,
        new_orders_in_database=5,
        database_commits=120,
        database_rollbacks=1,
        transactions_acknowledged=7,
        rollbacks_acknowledged=1,
        retries=0,
        failures=0,
        latencies=tuple(latency for latency in latencies if latency is not None),
        seconds=(
            SecondPoint(at_s=-1, transactions=4, new_orders=3, mean_ms=1, p95_ms=2, max_ms=3),
        ),
        validity=(judge_share("rollbacks", hits=1, sample=100, least=0.009, most=0.011),),
        client_cpu_s=0.25,
    )


def test_a_result_comes_back_from_json_as_it_was() -> None:
    assert OltpResult.from_json(result().to_json()) == result()


def test_a_result_says_that_it_is_not_a_tpc_result() -> None:
    assert result().disclaimer == DISCLAIMER
    assert "TPC-C-like" in DISCLAIMER
    assert "not comparable" in DISCLAIMER


def test_counts_that_differ_do_not_agree() -> None:
    text = result().to_json()
    other = OltpResult.from_json(
        text.replace('"new_orders_in_database":5', '"new_orders_in_database":4')
    )
    assert result().counts_agree
    assert not other.counts_agree


@pytest.mark.parametrize(
    "wrong",
    [
        {"warehouses": 0},
        {"clients": 0},
        {"duration_s": 0},
        {"ramp_up_s": -1},
        {"rate_tps": 0.0},
        {"tries_max": 1},
        {"access": "zipf"},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        OltpConfig(**wrong)


def test_an_access_given_as_text_is_the_access_meant() -> None:
    text: Any = "uniform"
    assert OltpConfig(access=text).access is Access.UNIFORM


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


@pytest.mark.parametrize("access", list(Access))
def test_uniform_access_takes_the_skew_away_and_nothing_else(access: Access) -> None:
    constants = choose_constants(access, seed=1, load_constant=200)
    skewed = access is Access.NURAND
    assert (constants.name_a, constants.customer_a, constants.item_a) == (
        (255, 1_023, 8_191) if skewed else (0, 0, 0)
    )
    assert is_run_constant_allowed(run=constants.name_c, load=200)


def test_pgbench_is_asked_for_the_whole_run_and_every_script(tmp_path: Path) -> None:
    config = OltpConfig(clients=3, threads=8, duration_s=20, ramp_up_s=5, rate_tps=50, tries_max=4)
    command = pgbench_command(
        Path("/bin/pgbench"),
        "dbname=x",
        config,
        choose_constants(config.access, seed=1, load_constant=50),
        scripts_dir=tmp_path,
        log_prefix=tmp_path / "log",
    )
    assert command[0] == "/bin/pgbench"
    assert command[-1] == "dbname=x"
    assert {"--client=3", "--jobs=3", "--time=25", "--rate=50", "--max-tries=4"} <= set(command)
    assert [word for word in command if word.startswith("--file=")] == [
        f"--file={tmp_path / script.file}@{script.weight}" for script in SCRIPTS
    ]
