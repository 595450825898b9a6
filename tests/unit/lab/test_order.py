# SPDX-License-Identifier: PostgreSQL
"""What is refused before anything is started."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.errors import UsageError
from pgflash.progress import Listener
from pgflash_lab.order import (
    ExtensionMissingError,
    Order,
    require_extension,
    require_workload,
    without_second_flash,
)
from pgflash_lab.postgres import PgInstall
from pgflash_lab.scenario import load_scenario
from pgflash_lab.store import Store


def order(root: Path, **changes: str) -> Order:
    """Return an order on an installation of empty folders."""
    install = PgInstall(
        bindir=root / "bin",
        libdir=root / "lib",
        pkglibdir=root / "lib",
        sharedir=root / "share",
        includedir_server=root / "include",
        version="18.6",
        major=18,
    )
    scenario = load_scenario("oltp-approaches", preset="smoke", changes=changes)
    return Order(scenario=scenario, install=install, store=Store(root=root))


def test_a_missing_extension_is_said_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(ExtensionMissingError, match="is not installed") as caught:
        require_extension(order(tmp_path))
    assert f"make install PG_CONFIG={tmp_path}/bin/pg_config" in caught.value.hint
    assert "--set approaches=baseline,wal-on-flash,hot-objects,all-on-flash" in caught.value.hint


def test_approaches_without_a_cache_need_no_extension(tmp_path: Path) -> None:
    require_extension(order(tmp_path, approaches="baseline,wal-on-flash"))


def test_an_installed_extension_is_found(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "share" / "extension").mkdir(parents=True)
    (tmp_path / "lib" / "pgflash.so").touch()
    with pytest.raises(ExtensionMissingError):  # half of it is not enough
        require_extension(order(tmp_path))
    (tmp_path / "share" / "extension" / "pgflash.control").touch()
    require_extension(order(tmp_path, prefill="false"))


def test_a_cache_that_nothing_can_fill_is_refused_unless_it_may_begin_empty(
    tmp_path: Path,
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "share" / "extension").mkdir(parents=True)
    (tmp_path / "lib" / "pgflash.so").touch()
    (tmp_path / "share" / "extension" / "pgflash.control").touch()
    with pytest.raises(ExtensionMissingError, match="no pg_prewarm") as caught:
        require_extension(order(tmp_path))
    assert "--set prefill=false" in caught.value.hint
    require_extension(replace(order(tmp_path), scenario=load_scenario("failover")))
    (tmp_path / "share" / "extension" / "pg_prewarm.control").touch()
    require_extension(order(tmp_path))


def test_servers_of_one_attempt_do_not_share_two_real_devices(tmp_path: Path) -> None:
    ordered = Order(
        scenario=load_scenario("failover"),
        install=order(tmp_path).install,
        store=Store(root=tmp_path),
        real=(tmp_path / "disk", tmp_path / "flash"),
    )
    with pytest.raises(UsageError, match="has 3 servers, which would share your two devices"):
        require_workload(ordered)


def test_a_cache_of_two_files_is_not_put_on_the_one_flash_device_that_was_named(
    tmp_path: Path,
) -> None:
    class Notes(Listener):
        def note(self, text: str) -> None:
            notes.append(text)

    notes: list[str] = []
    scenario = load_scenario("flash-cache")
    emulated = replace(order(tmp_path), scenario=scenario)
    assert without_second_flash(emulated, Notes()) is emulated
    real = replace(emulated, real=(tmp_path / "disk", tmp_path / "flash"))
    left = without_second_flash(real, Notes()).scenario.approaches
    assert left == tuple(one for one in scenario.approaches if one.name != "cache-10x-two-devices")
    (note,) = notes
    assert "left out, as it needs two flash devices and --flash names one" in note
    alone = load_scenario("flash-cache", changes={"approaches": "cache-10x-two-devices"})
    with pytest.raises(UsageError, match="is on two flash devices, and --flash names one"):
        without_second_flash(replace(real, scenario=alone), Notes())
