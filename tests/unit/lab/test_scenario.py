# SPDX-License-Identifier: PostgreSQL
"""A scenario's file is checked when it is read, and says what is wrong with it."""

import re
from pathlib import Path

import pytest

from pgflash_lab.oltp import OltpParameters
from pgflash_lab.parameters import ScenarioError, size_bytes
from pgflash_lab.scenario import (
    Scenario,
    load_scenario,
    parse_changes,
    parse_scenario,
    scenario_names,
)

GOOD = """
name = "small"
title = "A small scenario"
[parameters]
warehouses = 2
clients = 3
warmup_s = 1
measure_s = 5
repeats = 2
shared_buffers = "16MB"
cache_size = "64MB"
array = "disk"
flash = "nvme"
[presets.quick]
measure_s = 1
[settings]
jit = false
work_mem = "4MB"
random_page_cost = 1.1
[[approaches]]
name = "baseline"
title = "All on the array"
data = "array"
wal = "array"
cache = false
[[approaches]]
name = "flash-cache"
title = "With a cache"
data = "array"
wal = "array"
cache = true
"""


def parse(text: str = GOOD, **options: object) -> Scenario:
    return parse_scenario(text, source="small.toml", **options)  # type: ignore[arg-type]


def test_every_scenario_of_ours_is_good_in_every_preset() -> None:
    for name in scenario_names():
        scenario = load_scenario(name)
        for preset in scenario.presets:
            assert load_scenario(name, preset=preset).preset == preset


def test_the_demo_fits_into_ten_minutes_and_a_gigabyte() -> None:
    scenario = load_scenario("oltp-approaches", preset="demo")
    parameters = scenario.parameters
    assert isinstance(parameters, OltpParameters)
    each_s = parameters.warmup_s + parameters.measure_s
    assert len(scenario.approaches) == 6
    assert parameters.repeats == 2
    assert len(scenario.order()) * each_s <= 360
    assert parameters.warehouses * 105 <= 1024


def test_a_preset_replaces_parameters_and_a_change_replaces_both() -> None:
    assert parse().parameters.measure_s == 5
    assert parse(preset="quick").parameters.measure_s == 1
    changed = parse(preset="quick", changes={"measure_s": "9"})
    assert changed.parameters.measure_s == 9


def test_an_approach_may_change_parameters() -> None:
    text = GOOD.replace("cache = true", "cache = true\nchanges = { clients = 9, cache_times = 4 }")
    scenario = parse(text)
    baseline, cached = (scenario.parameters_of(one) for one in scenario.approaches)
    assert (baseline.clients, baseline.cache_bytes) == (3, 64 * 2**20)
    assert (cached.clients, cached.cache_bytes) == (9, 4 * 16 * 2**20)
    assert type(cached) is OltpParameters


def test_the_wal_is_with_the_data_unless_it_is_said() -> None:
    text = GOOD.replace('data = "array"\nwal = "array"', 'data = "flash"')
    assert parse(text).approaches[0].wal == "flash"


def test_settings_become_texts_as_postgresql_writes_them() -> None:
    assert parse().settings == {"jit": "off", "work_mem": "4MB", "random_page_cost": "1.1"}


def test_repeats_go_forth_and_back() -> None:
    order = [(approach.name, repeat) for approach, repeat in parse().order()]
    assert order == [("baseline", 1), ("flash-cache", 1), ("flash-cache", 2), ("baseline", 2)]


def test_approaches_can_be_chosen_in_any_order_and_keep_their_own() -> None:
    chosen = parse(changes={"approaches": "flash-cache, baseline"})
    assert [one.name for one in chosen.approaches] == ["baseline", "flash-cache"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("warehouses = 2", "warehouses = 0", "warehouses must be at least 1"),
        ("warehouses = 2", 'warehouses = "two"', "Expected `int`, got `str` for warehouses"),
        ("warehouses = 2", "warehouse = 2", 'no parameter "warehouse"'),
        ("warehouses = 2", "", "missing required field `warehouses`"),
        ("warmup_s = 1", "warmup_s = -1", "warmup_s must not be negative"),
        ('cache_size = "64MB"', 'cache_size = "64"', 'cache_size: "64" is not a size'),
        ('cache_size = "64MB"', 'cache_size = "0MB"', "is not a size"),
        ("jit = false", '"pgflash.verify" = "all"', "the lab itself decides"),
        ("jit = false", 'shared_buffers = "1GB"', "the lab itself decides"),
        ("jit = false", "jit = [1]", "must be a plain value"),
        ('data = "array"', 'data = "tape"', 'data is on "tape"'),
        ('name = "flash-cache"', 'name = "baseline"', "cannot name an approach"),
        ('name = "flash-cache"', 'name = "../x"', "cannot name an approach"),
        ('name = "flash-cache"', f'name = "{"x" * 81}"', "cannot name an approach"),
        ('name = "small"', 'name = "../small"', '"../small" cannot be its name'),
        ('name = "small"', f'name = "{"x" * 81}"', "cannot be its name"),
        ("cache = true", 'cache = "yes"', "Expected `bool`"),
        ('title = "A small scenario"', "", 'has no "title"'),
        ('title = "A small scenario"', 'title = "T"\nworkload = "x"', 'no workload "x"'),
        ("cache = true", 'cache = true\ntemp = "tape"', 'temp is on "tape"'),
        ("cache = true", "cache = true\ncache_files = 3", "cache_files must lie between 1 and 2"),
        ("cache = true", "keep = ['stock']", "keep needs a flash cache"),
        ("cache = true", "changes = { klients = 1 }", 'there is no parameter "klients"'),
        ("cache = true", "changes = { repeats = 1 }", 'there is no parameter "repeats"'),
        ("cache = true", "changes = { clients = 0 }", "clients must be at least 1"),
        ("cache = true", "changes = { clients = [1] }", "for clients"),
        ("[presets.quick]", "[preset.quick]", 'no parameter "preset"'),
        ("[settings]", "[settings", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ScenarioError, match=re.escape(message)) as caught:
        parse(GOOD.replace(old, new, 1))
    assert "small.toml" in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": "many"}, "got `str` for clients"),
        ({"clients": "0"}, "clients must be at least 1"),
        ({"klients": "1"}, 'no parameter "klients"'),
        ({"approaches": "tape"}, 'no approach "tape"'),
        ({"foreign_cpu_max": "0"}, "between 0 and 1"),
    ],
)
def test_a_wrong_change_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(message)):
        parse(changes=changes)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(ScenarioError, match='no preset "fast"') as caught:
        parse(preset="fast")
    assert "quick" in caught.value.hint


def test_an_assignment_needs_an_equals_sign() -> None:
    assert parse_changes(["a=1", "b = x=y"]) == {"a": "1", "b": "x=y"}
    for wrong in ("clients", "=3", ""):
        with pytest.raises(ScenarioError, match="key=value"):
            parse_changes([wrong])


def test_a_scenario_can_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert load_scenario(str(path)).title == "A small scenario"
    with pytest.raises(ScenarioError, match="could not read"):
        load_scenario(str(tmp_path / "other.toml"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match="not a text file"):
        load_scenario(str(path))


def test_sizes_are_powers_of_two() -> None:
    assert size_bytes("3MB", name="x") == 3 * 2**20
    assert size_bytes("2 GB", name="x") == 2 * 2**30
