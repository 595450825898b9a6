# SPDX-License-Identifier: PostgreSQL
"""A file of prices: its contents, and one message for each way to write it wrongly."""

import pytest

from pgflash.model.device import Raid
from pgflash.model.prices import PricesError, price_of, prices_from_toml

ARRAY = """
[[device]]
name = "array"
drives = 24
raid = "raid10"
unit_price = 221
enclosure_price = 3200.5
capacity = "300GB"
iops = 180
watts = 6.5
"""
FLASH = """
[[device]]
mount = "/mnt/flash/"
drives = 1
unit_price = 899.0
currency = "EUR"
source = "an offer"
"""


def test_a_price_says_all_of_it() -> None:
    price = price_of(prices_from_toml(ARRAY + FLASH, name="p.toml"), name="array")
    assert price is not None
    assert (price.drives, price.raid, price.unit_price) == (24, Raid.RAID10, 221.0)
    assert (price.enclosure_price, price.currency) == (3200.5, "USD")
    assert (price.capacity_bytes, price.iops, price.watts) == (300 * 10**9, 180.0, 6.5)
    assert price.source == "p.toml"


def test_a_mount_point_names_a_device_and_what_is_left_out_has_its_default() -> None:
    prices = prices_from_toml(ARRAY + FLASH, name="p.toml")
    price = price_of(prices, name="nvme0n1", mount_point="/mnt/flash")
    assert price is not None
    assert (price.raid, price.enclosure_price, price.iops) == (Raid.NONE, 0.0, None)
    assert (price.currency, price.source) == ("EUR", "an offer")


def test_a_device_without_a_price_has_none() -> None:
    # Neither of them is named like a device whose name and mount point are not known.
    prices = prices_from_toml(ARRAY + FLASH, name="p.toml")
    assert price_of(prices, name="sda", mount_point="/") is None
    assert price_of(prices) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("device = [", "not TOML"),
        ("", "it has none"),
        ("devices = 1", 'it has "devices"'),
        ("device = 1", "it has none"),
        ("device = [1]", "is no table"),
        (ARRAY.replace('name = "array"', ""), "neither name nor mount"),
        (ARRAY.replace("drives = 24", ""), "drives is None"),
        (ARRAY.replace("drives = 24", "drives = 0"), "drives is 0"),
        (ARRAY.replace("drives = 24", "drives = true"), "drives is True"),
        (ARRAY.replace("drives = 24", "drives = 5"), "an even number of drives, not 5"),
        (ARRAY.replace("raid10", "raid5").replace("24", "2"), "3 drives or more, not 2"),
        (ARRAY.replace("raid10", "raid6"), 'raid "raid6"'),
        (ARRAY.replace("unit_price = 221", ""), "no unit_price"),
        (ARRAY.replace("221", "-1"), "unit_price is -1.0"),
        (ARRAY.replace("221", "nan"), "unit_price is nan"),
        (ARRAY.replace('"300GB"', "300"), "in quotes"),
        (ARRAY.replace("300GB", "300 apples"), '"300 apples" is not a size'),
        (ARRAY + "color = 1", '"color", which is not a known key'),
        (ARRAY + ARRAY, 'prices "array" twice'),
        (FLASH + FLASH, 'prices "/mnt/flash" twice'),
    ],
)
def test_what_is_written_wrongly_is_named(text: str, complaint: str) -> None:
    text = text.replace("unit_price = -1", "unit_price = -1.0")
    with pytest.raises(PricesError) as raised:
        prices_from_toml(text, name="p.toml")
    assert complaint in raised.value.message
    assert "p.toml" in raised.value.message
    assert raised.value.exit_code == 2
