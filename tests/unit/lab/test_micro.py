# SPDX-License-Identifier: PostgreSQL
"""The micro workload without a server: its parameters, and how its log is read."""

from pathlib import Path

import pytest

from pgflash.errors import UsageError
from pgflash_lab.micro.driver import Operations, pgbench_command, rates, read_operations
from pgflash_lab.micro.model import MicroError, MicroParameters, Pattern, Side
from pgflash_lab.scenario import load_scenario
from support.workloads import parameters_of


def test_even_clients_work_on_the_array_and_odd_ones_on_flash() -> None:
    log = Operations()
    read_operations(["0 1 11000 0 100 500000\n", "3 7 250 0 100 500001\n"], log)
    assert log.sides == [Side.ARRAY, Side.FLASH]
    assert log.latencies_us == [11_000, 250]
    assert log.ends_us == [100_500_000, 100_500_001]


def test_with_a_rate_a_line_ends_with_its_lag() -> None:
    log = Operations()
    read_operations(["0 1 11000 0 100 500000 77\n"], log, paced=True)
    assert (log.sides, log.latencies_us) == ([Side.ARRAY], [11_000])
    with pytest.raises(MicroError, match="unexpected line 1"):
        read_operations(["0 1 11000 0 100 500000\n"], Operations(), paced=True)


def test_each_side_s_rate_is_that_of_its_own_full_load() -> None:
    log = Operations()
    second = 1_000_000
    # The array's operations take 4 s: one reaches into the window, one beyond the end of its time.
    for end_s in (4, 8):
        log.sides.append(Side.ARRAY)
        log.ends_us.append(end_s * second)
        log.latencies_us.append(4 * second)
    # Flash's take half a second, and end in time.
    for number in range(1, 11):
        log.sides.append(Side.FLASH)
        log.ends_us.append(number * second // 2)
        log.latencies_us.append(second // 2)
    found = rates(log, zero_us=second, time_up_us=5 * second)
    assert found == {Side.ARRAY: 1 / 4, Side.FLASH: 2.0}


def test_a_side_that_ends_early_is_not_thought_to_wait() -> None:
    log = Operations(
        sides=[Side.FLASH, Side.ARRAY], ends_us=[3_000_000, 900_000], latencies_us=[1_000_000, 1]
    )
    assert rates(log, zero_us=1_000_000, time_up_us=9_000_000) == {Side.FLASH: 0.5}


@pytest.mark.parametrize("line", ["0 1 failed 0 100 500000", "0 1 11000 0 100", "nonsense"])
def test_a_line_that_is_none_of_an_operation_is_refused(line: str) -> None:
    with pytest.raises(MicroError, match="unexpected line 1"):
        read_operations([line], Operations())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"pattern": "diagonal-read"}, 'no "diagonal-read"'),
        ({"clients": "3"}, "must be even"),
        ({"clients": "0"}, "clients must be at least 1"),
        ({"table_mb": "0"}, "table_mb must be at least 1"),
        ({"warmup_s": "1"}, "warmup_s must be 0"),
        ({"rate_tps": "-1"}, "rate_tps must not be negative"),
    ],
)
def test_what_cannot_be_run_is_refused(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_scenario("media-matrix", changes=wrong)


@pytest.mark.parametrize("pattern", Pattern)
def test_tables_are_named_to_a_statement_that_makes_one_by_text(pattern: Pattern) -> None:
    command = pgbench_command(
        Path("pgbench"),
        "dbname=lab",
        parameters_of(MicroParameters, table_mb=1, pattern=pattern),
        tablespaces={"array": "pg_default", "flash": "on_flash"},
        script=Path(f"{pattern}.sql"),
        log_prefix=Path("operations"),
    )
    makes_tables = pattern is Pattern.SEQUENTIAL_WRITE
    assert ("--protocol=simple" in command) is makes_tables
    assert "--define=flash=on_flash" in command
