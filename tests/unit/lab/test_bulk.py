# SPDX-License-Identifier: PostgreSQL
"""The load workload without a server: its blocks of rows, its figures, its archive_command."""

import subprocess
from pathlib import Path

import pytest

from pgflash.errors import UsageError
from pgflash_lab.bulk.archive import archive_command, missing_copies
from pgflash_lab.bulk.driver import make_blocks
from pgflash_lab.bulk.model import ROW_BYTES, Batch, BulkParameters, BulkResult
from pgflash_lab.bulk.workload import _around, _figures, _steps
from pgflash_lab.scenario import load_scenario
from support.workloads import parameters_of

LOAD = parameters_of(BulkParameters, base_mb=1, load_mb=2, batch_kb=64)


def result_of(*ended_s: float) -> BulkResult:
    """Return a load whose batches ended then, each after two seconds, of 10 rows."""
    batches = tuple(
        Batch(number=number, began_s=at_s - 2.0, ended_s=at_s, rows=10, waited_s=0.5)
        for number, at_s in enumerate(ended_s, start=1)
    )
    return BulkResult(
        parameters=LOAD,
        started_at="2026-11-22T09:00:00+00:00",
        elapsed_s=ended_s[-1],
        batches=batches,
        client_cpu_s=1.0,
    )


def test_a_block_has_the_rows_and_sums_that_the_ledger_is_told() -> None:
    for block in make_blocks(LOAD, count=2):
        sales = [line.split(b"\t") for line in block.sales.splitlines()]
        audits = [line.split(b"\t") for line in block.audits.splitlines()]
        assert (len(sales), len(audits)) == (LOAD.sale_rows, LOAD.audit_rows)
        assert sum(int(amount) for _, amount, _ in sales) == block.sale_amount
        assert sum(int(amount) for amount, _ in audits) == block.audit_amount


def test_blocks_are_the_same_for_the_same_seed_and_differ_from_each_other() -> None:
    first, second = make_blocks(LOAD, count=2)
    assert make_blocks(LOAD, count=1) == (first,)
    assert first.sales != second.sales


def test_a_load_has_as_many_bytes_as_were_asked_for() -> None:
    row_bytes = LOAD.batches * LOAD.batch_rows * ROW_BYTES
    assert row_bytes == pytest.approx(LOAD.load_mb * 2**20, rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"phase": "think"}, 'no "think"'),
        ({"load_mb": "0"}, "load_mb must be at least 1"),
        ({"unarchived_max": "-1"}, "unarchived_max must not be negative"),
        ({"batch_kb": "1"}, "less than a row"),
    ],
)
def test_what_cannot_be_run_is_refused(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_scenario("write-path", changes=wrong)


def test_the_wait_for_the_archiver_is_part_of_the_duration() -> None:
    figures = _figures(result_of(2.0, 4.0, 6.0, 8.0))
    assert figures.duration_s == 8.0
    assert figures.facts["archiver_wait_s"] == 2.0
    assert figures.latency.mean_ms == 2000.0


def test_the_steps_of_a_load_are_its_tenths_and_fill_its_time() -> None:
    steps = _steps(result_of(*range(2, 42, 2)))
    assert [step.name for step in steps] == [f"{10 * tenth} %" for tenth in range(1, 11)]
    assert [step.rows for step in steps] == [20] * 10
    assert steps[0].started_s == 0.0
    assert sum(step.elapsed_s for step in steps) == pytest.approx(40.0)


def test_a_load_of_few_batches_has_fewer_steps_and_none_is_empty() -> None:
    steps = _steps(result_of(2.0, 4.0, 6.0))
    assert sum(step.rows for step in steps) == 30
    assert all(step.rows for step in steps)


def test_the_response_at_a_share_is_that_of_the_batches_around_it() -> None:
    result = result_of(*(float(at_s) for at_s in range(1, 21)))
    assert [batch.number for batch in _around(result, 0.4)] == [7, 8, 9, 10]
    assert len(_around(result_of(2.0), 0.4)) == 1


def run_archive_command(folder: Path, segment: Path) -> int:
    """Run the command as the server's archiver would."""
    command = archive_command(folder)
    command = command.replace("%p", str(segment)).replace("%f", segment.name).replace("%%", "%")
    return subprocess.run(["sh", "-c", command], check=False, capture_output=True).returncode


@pytest.mark.parametrize("name", ["plain", "it's 100% a folder"])
def test_a_segment_is_copied_twice_whatever_the_folder_is_called(tmp_path: Path, name: str) -> None:
    segment = tmp_path / "00000001000000000000000A"
    segment.write_bytes(b"log" * 1000)
    folder = tmp_path / name
    folder.mkdir()
    assert run_archive_command(folder, segment) == 0
    for copy in ("archive", "second"):
        assert [one.name for one in (folder / copy).iterdir()] == [segment.name]
        assert (folder / copy / segment.name).read_bytes() == segment.read_bytes()
    assert missing_copies(folder) == set()


def test_a_copy_that_fails_fails_the_command_and_is_missed(tmp_path: Path) -> None:
    segment = tmp_path / "00000001000000000000000A"
    segment.write_bytes(b"log")
    (tmp_path / "second" / f"{segment.name}.part").mkdir(parents=True)  # cp cannot write there
    (tmp_path / "second" / f"{segment.name}.part" / segment.name).mkdir()
    assert run_archive_command(tmp_path, segment) != 0
    assert missing_copies(tmp_path) == {segment.name}
