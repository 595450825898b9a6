# SPDX-License-Identifier: PostgreSQL
"""The load workload without a server: its blocks of rows, its figures, its archive_command."""

import csv
import io
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from pgflash.errors import UsageError
from pgflash_lab.bulk.archive import archive_command, missing_copies
from pgflash_lab.bulk.driver import Block, make_blocks
from pgflash_lab.bulk.model import (
    BLOCKS,
    LINE_BYTES,
    ORDER_BYTES,
    Batch,
    BulkParameters,
    BulkResult,
)
from pgflash_lab.bulk.workload import BulkWorkload, _around, _figures, _steps
from pgflash_lab.model.run import Approach
from pgflash_lab.scenario import load_scenario
from pgflash_lab.workload import Context, Observer
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


def read(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode())))


@pytest.fixture(scope="module")
def blocks() -> tuple[Block, ...]:
    return make_blocks(LOAD)


def test_a_block_has_orders_with_all_their_lines_and_the_sums_that_the_ledger_is_told(
    blocks: tuple[Block, ...],
) -> None:
    assert len(blocks) == BLOCKS
    for block in blocks:
        orders, lines = read(block.orders), read(block.lines)
        assert (len(orders), len(lines)) == (block.order_rows, block.line_rows)
        assert len(orders) == LOAD.batch_orders
        assert [len(row) for row in (orders[0], lines[0])] == [9, 16]
        assert sum(Decimal(order[3]) for order in orders) == block.order_amount
        assert sum(Decimal(line[5]) for line in lines) == block.line_amount
        # Lines are numbered from 1 within their order, and each order has some.
        numbers: dict[str, list[int]] = {}
        for line in lines:
            numbers.setdefault(line[0], []).append(int(line[3]))
        assert list(numbers) == [order[0] for order in orders]
        assert all(found == [*range(1, len(found) + 1)] for found in numbers.values())


def test_blocks_are_the_same_for_the_same_seed_and_share_no_order(
    blocks: tuple[Block, ...],
) -> None:
    assert make_blocks(LOAD) == blocks
    keys = [order[0] for block in blocks for order in read(block.orders)]
    assert len(keys) == len(set(keys))


def test_rows_are_made_before_measuring_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blocks: tuple[Block, ...]
) -> None:
    made: list[BulkParameters] = []
    sent: list[Sequence[Block]] = []

    def make(parameters: BulkParameters) -> tuple[Block, ...]:
        made.append(parameters)
        return blocks

    def load(
        _conninfo: str, _parameters: BulkParameters, rows: Sequence[Block], _observer: Observer
    ) -> BulkResult:
        sent.append(rows)
        return result_of(2.0)

    # No server is needed: preparing has nothing to write, and the load only takes its rows.
    for name, instead in (("psycopg", MagicMock()), ("make_blocks", make), ("run", load)):
        monkeypatch.setattr(f"pgflash_lab.bulk.workload.{name}", instead)
    context = Context(
        install=MagicMock(),
        server=MagicMock(),
        conninfo="",
        parameters=LOAD,
        approach=MagicMock(spec=Approach),
        workdir=tmp_path,
        tablespaces={},
        archive=None,
        repeat=2,
        listener=MagicMock(),
    )
    workload = BulkWorkload()
    workload.prepare(context)
    assert made == [LOAD.seeded(2)]
    workload.measure(context, Observer())
    assert (len(made), sent) == (1, [blocks])


def test_another_seed_loads_another_part_of_a_database_as_large_as_the_base() -> None:
    large = replace(LOAD, base_mb=1024, batch_kb=512)
    scale_factor, part, parts = large.source(BLOCKS * large.batch_orders)
    # Six million lines at scale factor 1, of 152 bytes each.
    assert scale_factor == pytest.approx(1024 * 2**20 / 152 / 6e6)
    assert 1 <= part <= parts
    assert replace(large, seed=2).source(BLOCKS * large.batch_orders)[1] != part
    # A part has enough for all blocks.
    assert scale_factor * 1.5e6 / parts >= BLOCKS * large.batch_orders
    # A small base has not enough rows: then they are those of a larger one.
    small = replace(large, base_mb=1)
    assert small.source(BLOCKS * small.batch_orders)[0] > small.base_scale_factor


def test_a_load_has_as_many_bytes_as_were_asked_for(blocks: tuple[Block, ...]) -> None:
    lines = sum(block.line_rows for block in blocks) / BLOCKS
    batch = lines * LINE_BYTES + LOAD.batch_orders * ORDER_BYTES
    assert LOAD.batches * batch == pytest.approx(LOAD.load_mb * 2**20, rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"phase": "think"}, 'no "think"'),
        ({"load_mb": "0"}, "load_mb must be at least 1"),
        ({"unarchived_max": "-1"}, "unarchived_max must not be negative"),
        ({"batch_kb": "0"}, "batch_kb must be at least 1"),
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
