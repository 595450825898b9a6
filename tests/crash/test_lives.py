"""Lives of a server by dice (support/rounds.py): whatever came before, nothing stale is served."""

from __future__ import annotations

import os
import random

import pytest

from pgflash.lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.rounds import Story

#: Seeds whose stories are told in each run of the tests, and power cuts in each of them.
SEEDS = (1, 2)
CUTS = 3
SOAK_CUTS = int(os.environ.get("SOAK_ROUNDS") or 200)
SEED = os.environ.get("SEED")


def tell(cluster: ClusterFactory, install: PgInstall, seed: int, cuts: int) -> Story:
    """Go through so many power cuts; the seed is in the report of a failure."""
    print(f"SEED={seed}")  # noqa: T201
    story = Story(cluster, install, seed)
    try:
        story.go_on(cuts)
    finally:
        print(story.tally)  # noqa: T201
    return story


@pytest.mark.parametrize("seed", [*SEEDS, None], ids=[*map(str, SEEDS), "any"])
def test_whatever_came_before_nothing_stale_is_served(
    cluster: ClusterFactory, pgflash_install: PgInstall, seed: int | None
) -> None:
    story = tell(cluster, pgflash_install, seed or random.randrange(2**31), CUTS)
    assert story.tally.cuts == CUTS


@pytest.mark.soak
def test_hundreds_of_power_cuts_later_nothing_stale_is_served(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    seed = int(SEED) if SEED else random.randrange(2**31)
    tally = tell(cluster, pgflash_install, seed, SOAK_CUTS).tally
    assert tally.lost.times > SOAK_CUTS
    assert tally.compared > SOAK_CUTS * 100
    for way in ("warm: from the map", "warm: its memory", "cold: "):
        assert any(reason.startswith(way) for reason in tally.starts), tally.starts
