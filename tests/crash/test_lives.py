# SPDX-License-Identifier: PostgreSQL
"""Random lives of a server (support/rounds.py): whatever came before, nothing stale is served."""

import os
import random
from collections.abc import Callable

import pytest

from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.disk import FILE_SYSTEMS, disk_under
from support.rounds import StaleError, Story, Tally, create_story
from support.warm import create_warm

#: Seeds that every run of the tests uses, besides a random one, and their power cuts.
SEEDS = (1, 4)
CUTS = 2
SOAK_CUTS = int(os.environ.get("SOAK_ROUNDS") or 200)
DISK_CUTS = max(SOAK_CUTS // 4, 1)


def draw_seed() -> int:
    """Return the requested seed, or a random one."""
    return int(os.environ.get("SEED") or random.randrange(2**31))


def tell(story: Story, seed: int, cuts: int) -> Tally:
    """Go through so many power cuts; a failure reports the seed."""
    print(f"SEED={seed}")  # noqa: T201
    try:
        story.go_on(cuts)
    finally:
        print(story.tally)  # noqa: T201
    return story.tally


@pytest.mark.parametrize("seed", [*SEEDS, None], ids=[*map(str, SEEDS), "any"])
def test_whatever_came_before_nothing_stale_is_served(
    cluster: ClusterFactory, pgflash_install: PgInstall, seed: int | None
) -> None:
    seed = seed or draw_seed()
    tally = tell(create_story(cluster, pgflash_install, seed), seed, CUTS)
    assert tally.cuts == CUTS
    assert tally.compared > 0


@pytest.mark.soak
def test_hundreds_of_power_cuts_later_nothing_stale_is_served(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    seed = draw_seed()
    tally = tell(create_story(cluster, pgflash_install, seed), seed, SOAK_CUTS)
    assert tally.lost.times > SOAK_CUTS
    assert_meant_something(tally, SOAK_CUTS)


@pytest.mark.soak
@pytest.mark.parametrize("file_system", FILE_SYSTEMS)
def test_nor_is_on_a_file_system_that_loses_its_power_for_real(
    cluster: ClusterFactory, pgflash_install: PgInstall, file_system: str
) -> None:
    seed = draw_seed()
    cached = create_warm(cluster, pgflash_install)
    cached.server.stop()
    with disk_under(cached.server, file_system) as disk:
        tally = tell(Story(cluster, cached, disk, seed), seed, DISK_CUTS)
    assert_meant_something(tally, DISK_CUTS)


def assert_meant_something(tally: Tally, cuts: int) -> None:
    """Fail unless the cache was warm and cold, and many hits were compared."""
    assert tally.compared > cuts * 100
    for way in ("warm: from the map", "warm: its memory", "cold: "):
        assert any(reason.startswith(way) for reason in tally.starts), tally.starts


@pytest.mark.soak
def test_control_a_map_that_is_believed_at_any_checkpoint_is_caught(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    seed = draw_seed()
    story = create_story(cluster, broken_install("CHECKPOINT"), seed)
    with pytest.raises(StaleError):
        tell(story, seed, SOAK_CUTS)
