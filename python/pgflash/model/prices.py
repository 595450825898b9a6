# SPDX-License-Identifier: PostgreSQL
"""Prices of devices in a TOML file that people write.

[[device]]
name = "array"            # what it is called
mount = "/mnt/array"      # or where it is mounted; one of the two is enough
drives = 24
raid = "raid10"           # raid10, raid5 or none
unit_price = 221.0        # of one drive
enclosure_price = 3200.0  # 0 if left out
currency = "USD"
capacity = "300GB"        # of one drive, by its label: a vendor's GB is 10^9 bytes; GiB: 2^30
iops = 180                # of one drive
watts = 6.5               # of one drive
source = "an offer of May"
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgflash.errors import UsageError
from pgflash.model.device import Price, Raid
from pgflash.model.sizes import read_vendor_size

_KEYS = {
    "name",
    "mount",
    "drives",
    "raid",
    "unit_price",
    "enclosure_price",
    "currency",
    "capacity",
    "iops",
    "watts",
    "source",
}


class PricesError(UsageError):
    """A file is not a valid file of prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedDevice:
    """An entry of the file: a device and its price."""

    name: str
    mount_point: str
    price: Price


def prices_from_toml(text: str, *, name: str) -> tuple[PricedDevice, ...]:
    """Parse the entries of a file of prices; NAME is the file's name in errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PricesError(f'"{name}" is not TOML: {error}', hint=_HINT) from error
    others = sorted(set(data) - {"device"})
    entries = data.get("device")
    if others or not isinstance(entries, list) or not entries:
        what = f'it has "{others[0]}"' if others else "it has none"
        raise PricesError(f'"{name}" is not a file of prices: {what}', hint=_HINT)
    devices = tuple(
        _device(entry, f'device {number} of "{name}"', name)
        for number, entry in enumerate(entries, start=1)
    )
    for key in ("name", "mount_point"):
        named = [getattr(one, key) for one in devices if getattr(one, key)]
        twice = sorted({one for one in named if named.count(one) > 1})
        if twice:
            raise PricesError(f'"{name}" prices "{twice[0]}" twice')
    return devices


def price_of(
    prices: tuple[PricedDevice, ...], *, name: str = "", mount_point: str = ""
) -> Price | None:
    """Return the price of a device by its mount point or its name, or None if it has none."""
    for one in prices:
        if (mount_point and one.mount_point == mount_point) or (name and one.name == name):
            return one.price
    return None


def storage_price(price: Price) -> float:
    """Return what a device costs: its drives and their enclosure."""
    return price.drives * price.unit_price + price.enclosure_price


_HINT = "Each device is a table [[device]] with name or mount, drives, raid and unit_price."


def _device(entry: object, where: str, source: str) -> PricedDevice:
    """Parse an entry, checking every word of it."""
    if not isinstance(entry, dict):
        raise PricesError(f"{where} is no table", hint=_HINT)
    wrong = sorted(set(entry) - _KEYS)
    if wrong:
        raise PricesError(
            f'{where} has "{wrong[0]}", which is not a known key',
            hint=f"The words are {', '.join(sorted(_KEYS))}.",
        )
    name = _text(entry, "name", where)
    mount_point = _text(entry, "mount", where)
    if not name and not mount_point:
        raise PricesError(f"{where} has neither name nor mount", hint=_HINT)
    raid = _text(entry, "raid", where) or Raid.NONE
    if raid not in set(Raid):
        raise PricesError(f'{where} has raid "{raid}"', hint=f"Write one of {', '.join(Raid)}.")
    price = Price(
        drives=_drives(entry, Raid(raid), where),
        raid=Raid(raid),
        unit_price=_number(entry, "unit_price", where, required=True) or 0.0,
        enclosure_price=_number(entry, "enclosure_price", where) or 0.0,
        currency=_text(entry, "currency", where) or "USD",
        capacity_bytes=_capacity(entry, where),
        iops=_number(entry, "iops", where),
        watts=_number(entry, "watts", where),
        source=_text(entry, "source", where) or source,
    )
    return PricedDevice(name=name, mount_point=mount_point.rstrip("/") or mount_point, price=price)


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise PricesError(f'{where}: {key} is {value!r}; write it in quotes, as "..."')
    return value.strip()


def _number(
    entry: Mapping[str, Any], key: str, where: str, *, required: bool = False
) -> float | None:
    value = entry.get(key)
    if value is None:
        if required:
            raise PricesError(f"{where} has no {key}", hint=_HINT)
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise PricesError(f"{where}: {key} is {value!r}; write a number from 0 on")
    return float(value)


def _drives(entry: Mapping[str, Any], raid: Raid, where: str) -> int:
    value = entry.get("drives")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PricesError(f"{where}: drives is {value!r}; write how many there are", hint=_HINT)
    if raid is Raid.RAID10 and (value < 2 or value % 2):
        raise PricesError(f"{where}: RAID-10 takes an even number of drives, not {value}")
    if raid is Raid.RAID5 and value < 3:
        raise PricesError(f"{where}: RAID-5 takes 3 drives or more, not {value}")
    return value


def _capacity(entry: Mapping[str, Any], where: str) -> int | None:
    text = _text(entry, "capacity", where)
    if not text:
        return None
    try:
        return read_vendor_size(text)
    except ValueError as error:
        raise PricesError(f"{where}: capacity: {error}", hint='Write it as "800GB".') from error
