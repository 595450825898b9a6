# SPDX-License-Identifier: PostgreSQL
"""The bench of policies: its streams, gaps, windows and replay are correct."""

import json
import random
import struct
import subprocess
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import compare
import pytest
import streams
from coalesce import UPDATE, linger

from support.cluster import REPOSITORY

CORE = REPOSITORY / "core"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    subprocess.run(["make", "-s", "-C", str(CORE), "build/replay"], check=True, timeout=120)


def stream(requests: list[int], classes: bytes = b"") -> streams.Stream:
    return streams.Stream(name="test", group="made", requests=array("I", requests), classes=classes)


def replay(folder: Path, requests: list[int], *options: str) -> dict[str, float]:
    path = folder / "test.u32"
    path.write_bytes(array("I", requests).tobytes())
    done = subprocess.run(
        [str(CORE / "build/replay"), str(path), *options, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


# ---- streams


@pytest.mark.parametrize("name", streams.RECIPES)
def test_a_made_stream_is_the_same_each_time(name: str) -> None:
    recipe = streams.RECIPES[name]
    one, other = (list(islice(recipe.references(random.Random(1)), 2000)) for _ in range(2))
    assert one == other
    assert len(set(one)) > 1


def test_what_the_first_level_holds_is_not_in_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def few_then_many(_: random.Random) -> Iterator[streams.Reference]:
        while True:
            yield from ((0, 1), (0, 2), (0, 1), (0, 2), (1, 3))

    recipe = streams.Recipe(references=few_then_many, first_level=2, reads=6)
    monkeypatch.setitem(streams.RECIPES, "few", recipe)
    made = streams.make("few")
    # 1 and 2 miss once each, 3 pushes out 1, which pushes out 2, which pushes out 3.
    assert list(made.requests) == [0, 1, 2, 0, 1, 2]
    assert made.classes == bytes([0, 0, 1])


def test_zipf_prefers_low_ranks() -> None:
    rank = streams.zipf(random.Random(1), 100, 1.0)
    drawn = [rank() for _ in range(10000)]
    assert min(drawn) == 0
    assert max(drawn) <= 99
    # 1 of 5.19, the sum of 1/1 to 1/100.
    assert drawn.count(0) / len(drawn) == pytest.approx(1 / 5.187, rel=0.1)


def test_the_oracle_format_tells_the_next_read_and_leaves_writes_out(tmp_path: Path) -> None:
    path = tmp_path / "test.bin"
    compare.write_oracle(stream([5, 7 | streams.WRITE, 7, 5]), path)
    assert list(struct.iter_unpack("<IQIq", path.read_bytes())) == [
        (0, 5, 1, 2),
        (1, 7, 1, 1 << 62),
        (2, 5, 1, 1 << 62),
    ]


# ---- gaps


def test_a_gap_is_pooled_over_what_there_is_to_win() -> None:
    lru = compare.Played(misses={"a": [0.9, 0.5], "b": [0.5]})
    best = compare.Played(misses={"a": [0.5, 0.499], "b": [0.4]})
    own = compare.Played(misses={"a": [0.7, 0.6], "b": [0.5]})
    gaps = compare.Gaps(lru=lru, best=best, policy=own)
    assert gaps.pooled(["a", "b"]) == pytest.approx((0.2 - 0.1 + 0) / (0.4 + 0.001 + 0.1))
    first, second = gaps.each("a")
    assert first == pytest.approx(0.5)
    assert second is None  # LRU is as good as the best


def test_a_policy_that_was_not_played_everywhere_is_not_pooled() -> None:
    played = compare.Played(misses={"a": [0.9]})
    gaps = compare.Gaps(lru=played, best=played, policy=played)
    assert gaps.pooled(["a", "b"]) is None


# ---- coalescing


def test_a_block_updated_again_while_it_waits_is_written_once() -> None:
    writes = array("I", [1 | UPDATE, 9, 2 | UPDATE, 1 | UPDATE, 3 | UPDATE, 1 | UPDATE])
    saved = linger(writes, 2, renew=False)
    # 3 pushes out 1, which waited longest although it was updated again.
    assert (saved.fills, saved.updates, saved.updates_written) == (1, 5, 4)
    assert saved.of_updates == pytest.approx(1 / 5)
    assert saved.of_all == pytest.approx(1 / 6)
    assert linger(writes, 2, renew=True).updates_written == 3


# ---- replay


def test_replay_keeps_half_of_a_loop_of_twice_the_cache(tmp_path: Path) -> None:
    loop = [i % 2048 for i in range(200_000)]
    result = replay(tmp_path, loop, "--blocks", "1024")
    assert result["read_misses"] < 0.6 * len(loop)
    assert result["fills"] < 0.5 * result["read_misses"]


def test_replay_plays_writes_as_updates_that_change_nothing_else(tmp_path: Path) -> None:
    rng = random.Random(1)
    reads = [rng.randrange(1000) for _ in range(20_000)]
    written = [request for read in reads for request in (read, rng.randrange(2000) | streams.WRITE)]
    log = tmp_path / "log"
    mixed = replay(tmp_path, written, "--blocks", "512", "--slot-writes", str(log))
    plain = replay(tmp_path, reads, "--blocks", "512")
    assert (mixed["reads"], mixed["read_misses"]) == (plain["reads"], plain["read_misses"])
    assert mixed["fills"] == plain["fills"]
    assert mixed["updates"] > 0

    slot_writes = array("I", log.read_bytes())
    updates = sum(write >= UPDATE for write in slot_writes)
    assert updates == mixed["updates"]
    assert len(slot_writes) - updates == mixed["fills"]


def test_replay_names_its_policies(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        replay(tmp_path, [1], "--blocks", "64", "--policy", "lucky")
    assert refused.value.returncode == 2
    assert "gittins or lfu" in refused.value.stderr
