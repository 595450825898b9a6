# SPDX-License-Identifier: PostgreSQL
"""What storage costs: prices, RAID levels, and what throughput and transactions cost on it."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.cli import main
from pgflash.errors import UsageError
from pgflash.model.awr import plain
from pgflash.model.device import Price, Raid
from pgflash.model.prices import storage_price
from pgflash_lab.analyze.cost import (
    approach_costs,
    as_raid5,
    cost_sentence,
    per_gb,
    random_iops,
    ratio_sentence,
    roles_of,
    run_costs,
    storage_table,
    usable_bytes,
)
from pgflash_lab.api import cost
from pgflash_lab.model.paper import paper_prices, priced_papers, printed_number, read_paper
from pgflash_lab.model.run import Approach
from pgflash_lab.store import write_run
from support.runs import ALL, BASELINE, FLASH_CACHE, attempt, run_of, whole_run
from support.terminal import PGFLASH, terminal

DISKS = Price(
    drives=10,
    raid=Raid.RAID10,
    unit_price=100,
    enclosure_price=500,
    capacity_bytes=10**12,
    iops=100,
)
FLASH = Price(drives=4, raid=Raid.RAID10, unit_price=300, capacity_bytes=10**12)
PRICES = {"array": DISKS, "flash": FLASH}


def test_a_device_costs_its_drives_and_their_enclosure() -> None:
    assert storage_price(DISKS) == 1500
    assert storage_price(FLASH) == 1200


@pytest.mark.parametrize(
    ("raid", "terabytes", "reads", "half"),
    [(Raid.NONE, 10, 1000, 1000), (Raid.RAID10, 5, 1000, 1000 / 1.5), (Raid.RAID5, 9, 1000, 400)],
)
def test_a_raid_level_costs_capacity_and_writes(
    raid: Raid, terabytes: int, reads: float, half: float
) -> None:
    price = replace(DISKS, raid=raid)
    assert usable_bytes(price) == terabytes * 10**12
    assert random_iops(price) == reads
    assert random_iops(price, read_share=0.5) == pytest.approx(half)


def test_what_nobody_said_is_not_computed() -> None:
    assert usable_bytes(replace(DISKS, capacity_bytes=None)) is None
    assert random_iops(FLASH) is None
    names = [column.name for column in storage_table({"flash": FLASH}).columns]
    assert "read_iops" not in names
    assert "read_iops" in [column.name for column in storage_table(PRICES).columns]


def row_of(prices: dict[str, Price], device: str) -> dict[str, object]:
    table = storage_table(prices)
    names = [column.name for column in table.columns]
    cells = next(row.cells for row in table.rows if row.cells[0] == device)
    return dict(zip(names, map(plain, cells), strict=True))


def test_reads_are_set_against_a_gb_the_price_and_the_power() -> None:
    powered = {"array": replace(DISKS, watts=8), "flash": replace(FLASH, iops=50_000, watts=10)}
    array, flash = row_of(powered, "array"), row_of(powered, "flash")
    # Ten disks of 100 reads/s and 8 W hold 5,000 GB for 1,500; four drives hold 2,000 GB for 1,200.
    assert (array["iops_per_gb"], array["watts"], array["iops_per_watt"]) == (0.2, 80, 12.5)
    assert array["iops_per_money"] == pytest.approx(1000 / 1500)
    assert (flash["iops_per_gb"], flash["watts"], flash["iops_per_watt"]) == (100, 40, 5000)
    assert flash["per_gb_times"] == pytest.approx((1200 / 2000) / (1500 / 5000))
    assert ratio_sentence(powered) == (
        "A GB of flash costs 2.00 times what one of the array costs: 0.60 USD against 0.30 USD."
    )
    # A run's own reads, too, for the power of the devices that the approach uses.
    run = run_of(attempt(BASELINE, tpm=1_000), attempt(FLASH_CACHE, tpm=1_000))
    base, cached = approach_costs(run, powered)
    assert base.reads_per_watt == pytest.approx(base.reads_per_s / 80)
    assert cached.reads_per_watt == pytest.approx(cached.reads_per_s / 120)


def test_power_and_reads_that_nobody_gave_are_not_shown() -> None:
    assert "watts" not in row_of(PRICES, "array")
    shown = row_of({"array": replace(DISKS, iops=None, watts=8)}, "array")
    assert "iops_per_gb" not in shown
    assert "iops_per_watt" not in shown
    assert shown["watts"] == 80
    run = run_of(attempt(FLASH_CACHE, tpm=1_000))
    (cached,) = approach_costs(run, {"array": replace(DISKS, watts=8), "flash": FLASH})
    assert cached.reads_per_watt is None
    assert ratio_sentence({"array": DISKS}) == ""


def test_raid_5_holds_as_much_with_fewer_drives() -> None:
    five = as_raid5(FLASH)
    assert (five.drives, five.raid) == (3, Raid.RAID5)
    assert usable_bytes(five) == usable_bytes(FLASH)
    assert as_raid5(replace(FLASH, drives=2)).drives == 3  # RAID 5 takes three at least


def test_an_approach_uses_each_device_that_holds_a_part_of_it() -> None:
    assert roles_of(BASELINE) == ("array",)
    assert roles_of(FLASH_CACHE) == ("array", "flash")
    assert roles_of(ALL) == ("flash",)
    assert roles_of(Approach(name="hot", title="", objects=("stock",))) == ("array", "flash")
    assert roles_of(Approach(name="temp", title="", temp="flash")) == ("array", "flash")
    assert roles_of(Approach(name="arc", title="", data="flash", archive="array")) == (
        "flash",
        "array",
    )


def test_cost_is_price_over_what_was_measured() -> None:
    run = run_of(attempt(BASELINE, tpm=1_000), attempt(ALL, tpm=10_000))
    base, flash = approach_costs(run, PRICES)
    assert base.per_1000_tpm == 1500
    assert flash.per_1000_tpm == 120
    # Three years have 1,576,800 minutes: at 1,000 transactions each that is 1,576.8 million.
    assert base.per_million_transactions == pytest.approx(1500 / 1576.8)
    # The hand-made run reads two blocks a transaction: 33.3 a second.
    assert base.per_read_per_s == pytest.approx(1500 / (2 * 1000 / 60), rel=0.01)
    assert cost_sentence((base, flash)) == (
        "Everything on flash costs least for its throughput: 120.00 USD of storage per 1,000 TPM "
        "against 1,500 USD with everything on the array, 92 % less."
    )


def test_where_flash_does_not_pay_that_is_said() -> None:
    run = run_of(attempt(BASELINE, tpm=1_000), attempt(FLASH_CACHE, tpm=1_100))
    assert cost_sentence(approach_costs(run, PRICES)).startswith("No approach costs less")


def test_approaches_are_compared_only_with_one_of_the_same_load() -> None:
    array = Approach(name="array-small", title="Array, small", base="array-small")
    flash = replace(array, name="flash-small", title="Flash, small", data="flash", wal="flash")
    run = run_of(
        attempt(BASELINE, tpm=1_000),
        attempt(ALL, tpm=2_000),
        attempt(array, tpm=40_000),
        attempt(flash, tpm=80_000),
        approaches=(BASELINE, ALL, array, flash),
    )
    found = run_costs(run, PRICES)
    times = [float(str(one)) for one in found.table.values("times")]
    # 1,200 of storage for 1,500, at twice the throughput.
    assert times == pytest.approx([1, 0.4, 1, 0.4])
    assert found.sentences[0].startswith("Everything on flash costs least for its throughput")


def test_a_cache_of_two_files_pays_for_two_devices() -> None:
    two = replace(FLASH_CACHE, cache_files=2)
    assert roles_of(two) == ("array", "flash", "flash")
    powered = {"array": replace(DISKS, watts=8), "flash": replace(FLASH, watts=10)}
    run = run_of(attempt(two, tpm=1_000), approaches=(two,))
    (cost_of_two,) = approach_costs(run, powered)
    assert cost_of_two.price == 1500 + 2 * 1200
    assert cost_of_two.watts == 80 + 2 * 40
    assert run_costs(run, powered).table.values("devices") == ("array and 2 x flash",)


def test_an_approach_without_a_price_is_left_out_and_two_currencies_are_refused() -> None:
    costs = approach_costs(whole_run(), {"array": DISKS})
    assert [one.approach.name for one in costs] == ["baseline"]
    with pytest.raises(UsageError, match="EUR and USD"):
        approach_costs(whole_run(), {"array": DISKS, "flash": replace(FLASH, currency="EUR")})


def test_the_papers_prices_come_to_its_printed_totals() -> None:
    printed = read_paper("000").exhibit("fig-15")
    for role, column in (("array", "HDD"), ("flash", "SanDisk Optimus SSD")):
        price = paper_prices("000")[role]
        assert storage_price(price) == printed.number("Total", column)
        assert price.drives == printed.number("Total Number of Disks/Drives", column)
        drives = printed.row("Drive Cost")[printed.columns.index(column)]
        assert printed_number(drives.rpartition("=")[2]) == price.drives * price.unit_price
    lower = 1 - storage_price(paper_prices("000")["flash"]) / storage_price(
        paper_prices("000")["array"]
    )
    assert round(lower, 3) == 0.569  # and not the 63 % that it prints


def test_the_prices_of_the_other_papers_are_what_they_print() -> None:
    assert priced_papers() == ["000", "003", "004"]
    (flash,) = paper_prices("003").values()
    printed = read_paper("003").exhibit("prices").number("full size, 80 modules", "GBP")
    assert (storage_price(flash), flash.drives, flash.currency) == (printed, 80, "GBP")
    prices = paper_prices("004")
    array_gb, flash_gb = (per_gb(prices[role]) or 0 for role in ("array", "flash"))
    assert array_gb == pytest.approx(0.10)
    assert 10 <= flash_gb / array_gb <= 15
    disks = read_paper("004").exhibit("table-8-2")
    for role, device in (("array", "Samsung HD753LJ"), ("flash", "OCZ Vertex")):
        assert usable_bytes(prices[role]) == (disks.number(device, "Capacity (GB)") or 0) * 1e9


def test_a_run_is_priced_by_its_own_paper_if_that_prices_all_devices() -> None:
    run = whole_run()
    assert cost(replace(run, paper="004")).prices == paper_prices("004")
    # Paper 003 names no price of its SAN.
    assert cost(replace(run, paper="003")).prices == paper_prices("000")
    assert cost(run, paper="003").prices == paper_prices("003")
    with pytest.raises(UsageError, match='no paper "002" names prices'):
        cost(run, paper="002")
    with pytest.raises(UsageError, match="a file's or a paper's"):
        cost(run, prices=Path("x.toml"), paper="004")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    run = whole_run()
    write_run(tmp_path / "runs" / run.id, run)
    return tmp_path


def printed_by(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["cost", *words]) == 0
    return capsys.readouterr().out


def test_the_command_prints_sentences_and_tables(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    text = printed_by(capsys, "--store", str(store))
    assert "costs least for its throughput" in text
    assert "Prices: paper 000, figure 15." in text
    assert "were it RAID 5" in text
    assert max(map(len, text.splitlines())) <= 100


def test_on_a_terminal_of_80_columns_no_line_is_longer_and_no_number_is_cut(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    piped = printed_by(capsys, "--store", str(store))
    with terminal((*PGFLASH, "cost", "--store", str(store)), lines=500) as shown:
        text = shown.rest()
    assert max(map(len, text.splitlines())) <= 80
    assert numbers(text) >= numbers(piped)


def numbers(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])\d[\d,.]*\d(?![\w.])", text))


def test_the_command_takes_prices_by_role_or_by_device(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    prices = store / "prices.toml"
    prices.write_text(
        '[[device]]\nname = "array"\ndrives = 2\nunit_price = 100\ncurrency = "EUR"\n'
        '[[device]]\nname = "nvme"\ndrives = 1\nunit_price = 50\ncurrency = "EUR"\n'
    )
    found = json.loads(
        printed_by(capsys, "--store", str(store), "--prices", str(prices), "--format", "json")
    )
    by_name = {one["approach"]: one for one in found["approaches"]}
    assert by_name["Everything on flash"]["price"] == 50
    assert by_name["Flash cache"]["price"] == 250
    assert found["devices"]["array"]["currency"] == "EUR"
    rows = list(
        csv.DictReader(
            io.StringIO(
                printed_by(
                    capsys, "--store", str(store), "--prices", str(prices), "--format", "csv"
                )
            )
        )
    )
    assert float(rows[0]["price"]) == 200


def test_prices_of_other_devices_are_an_error(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    prices = store / "prices.toml"
    prices.write_text('[[device]]\nname = "tape"\ndrives = 1\nunit_price = 1\n')
    assert main(["cost", "--store", str(store), "--prices", str(prices)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "prices no device of this run" in captured.err


def test_a_run_of_one_approach_has_tables_and_no_comparison() -> None:
    found = run_costs(run_of(attempt(BASELINE, tpm=1_000)), PRICES)
    assert len(found.table.rows) == 1
    assert not any("least" in sentence for sentence in found.sentences)


def test_three_servers_are_not_priced_as_one() -> None:
    ended = replace(attempt(FLASH_CACHE, tpm=1_000), workload="failover")
    with pytest.raises(UsageError, match="each of its three servers has devices of its own"):
        run_costs(run_of(ended), PRICES)


def test_other_work_is_not_called_transactions() -> None:
    made = (attempt(BASELINE, tpm=6), attempt(ALL, tpm=30))
    found = run_costs(run_of(*(replace(one, workload="warehouse") for one in made)), PRICES)
    assert "per 1,000 queries a minute" in found.sentences[0]
    titles = [column.title for column in found.table.columns]
    assert "USD per million queries" in titles
    assert not any("TPM" in title or "transactions" in title for title in titles)
