# SPDX-License-Identifier: PostgreSQL
"""What storage costs, and what a transaction costs on it: paper 000's figure 15 as arithmetic.

Prices are given (by a person, or by the paper), throughput was measured, and everything else is
computed from the two: so every number here is modelled.  As in the paper, only storage is counted:
the server is the same for every approach.

An approach pays for the whole of each device that it uses: a user who puts a WAL of a few GB on
flash and uses the rest for something else pays less than stated here.  Capacity and IOPS follow
from the drives: RAID 10 keeps half and writes twice; RAID 5 loses one drive and needs four accesses
for a small write.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pgflash.analyze.grid import figure, ratio, text
from pgflash.errors import UsageError
from pgflash.model.awr import Column, ReportTable, Row, Source, Unit
from pgflash.model.device import Price, Raid
from pgflash.model.prices import storage_price
from pgflash.model.sizes import VENDOR_GB
from pgflash.model.words import figure as three
from pgflash.model.words import money, percent
from pgflash_lab.model.run import Approach, Run
from pgflash_lab.model.summary import BASELINE, COUNTED, Summary, base_of, is_failover, summarize

#: Number of years over which storage is written off in a cost per transaction.
WRITE_OFF_YEARS = 3
_MINUTES = WRITE_OFF_YEARS * 365 * 24 * 60

#: Accesses that a small write needs.
_WRITE_PENALTY = {Raid.NONE: 1, Raid.RAID10: 2, Raid.RAID5: 4}
_RAID_TITLES = {Raid.NONE: "none", Raid.RAID10: "RAID 10", Raid.RAID5: "RAID 5"}


def usable_bytes(price: Price) -> int | None:
    """Return how much a device holds; None if the size of a drive is unknown."""
    if price.capacity_bytes is None:
        return None
    usable = {
        Raid.NONE: price.drives,
        Raid.RAID10: price.drives // 2,
        Raid.RAID5: price.drives - 1,
    }[price.raid]
    return usable * price.capacity_bytes


def random_iops(price: Price, *, read_share: float = 1.0) -> float | None:
    """Return the small random accesses a second that a device can serve; None if unknown."""
    if price.iops is None:
        return None
    accesses = read_share + (1 - read_share) * _WRITE_PENALTY[price.raid]
    return price.drives * price.iops / accesses


def watts_of(price: Price) -> float | None:
    """Return the power that a device's drives take; None if unknown."""
    return price.drives * price.watts if price.watts is not None else None


def per_gb(price: Price) -> float | None:
    """Return the price of a vendor's GB that a device holds; None if its capacity is unknown."""
    usable = usable_bytes(price)
    return storage_price(price) / (usable / VENDOR_GB) if usable else None


def as_raid5(price: Price) -> Price:
    """Return the fewest of the same drives that hold as much in RAID 5."""
    data = {
        Raid.NONE: price.drives,
        Raid.RAID10: price.drives // 2,
        Raid.RAID5: price.drives - 1,
    }[price.raid]
    return dataclasses.replace(price, raid=Raid.RAID5, drives=max(data, 2) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproachCost:
    """The price of one approach's storage, and what was measured on it.

    A transaction is whatever the workload counts: a query, a batch of a load.
    """

    approach: Approach
    #: The role of each device that it uses.
    roles: tuple[str, ...]
    price: float
    currency: str
    tpm: float
    #: Blocks that the server read a second.
    reads_per_s: float
    #: The power of its devices' drives; None if one is unknown.
    watts: float | None = None
    workload: str = "oltp"

    @property
    def per_1000_tpm(self) -> float | None:
        """Return the price of storage for each thousand transactions a minute."""
        return 1000 * self.price / self.tpm if self.tpm > 0 else None

    @property
    def per_million_transactions(self) -> float | None:
        """Return what a million transactions cost until the storage is written off."""
        return 1e6 * self.price / (self.tpm * _MINUTES) if self.tpm > 0 else None

    @property
    def per_read_per_s(self) -> float | None:
        """Return the price of storage for each read a second that was achieved."""
        return self.price / self.reads_per_s if self.reads_per_s > 0 else None

    @property
    def reads_per_watt(self) -> float | None:
        """Return the reads a second that were achieved for each watt."""
        return self.reads_per_s / self.watts if self.watts else None


def roles_of(approach: Approach) -> tuple[str, ...]:
    """Return the role of each device that an approach uses, the data's first.

    A cache of several files needs as many devices: their role is named once for each.
    """
    roles = [approach.data, approach.wal, approach.temp, approach.archive]
    if approach.cache or approach.objects:
        roles.append("flash")
    more = approach.cache_files - 1 if approach.cache else 0
    return (*dict.fromkeys(role for role in roles if role), *more * ("flash",))


def approach_costs(run: Run, prices: Mapping[str, Price]) -> tuple[ApproachCost, ...]:
    """Return the cost of each approach that was measured and whose devices have a price."""
    if is_failover(run):
        raise UsageError(
            f"the storage of run {run.id} has no cost: each of its three servers has devices of "
            "its own, and its throughput contains an outage",
            hint="Name another run: --run RUN.",
        )
    currencies = sorted({price.currency for price in prices.values()})
    if len(currencies) > 1:
        raise UsageError(
            f"prices are in {' and '.join(currencies)}, which cannot be added",
            hint="Give all prices in one currency.",
        )
    return tuple(
        _cost(summary, prices, currencies[0])
        for summary in summarize(run)
        if all(role in prices for role in roles_of(summary.approach))
    )


def _cost(summary: Summary, prices: Mapping[str, Price], currency: str) -> ApproachCost:
    roles = roles_of(summary.approach)
    attempt = summary.middle
    watts = [watts_of(prices[role]) for role in roles]
    return ApproachCost(
        approach=summary.approach,
        roles=roles,
        price=sum(storage_price(prices[role]) for role in roles),
        currency=currency,
        tpm=summary.tpm,
        reads_per_s=attempt.reads.blocks / max(attempt.cpu.elapsed_s, 1e-9),
        watts=None if None in watts else sum(one or 0.0 for one in watts),
        workload=attempt.workload,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCosts:
    """The costs of a run's approaches, in words and tables."""

    run_id: str
    prices: Mapping[str, Price]
    sentences: tuple[str, ...]
    table: ReportTable
    storage: ReportTable


def run_costs(run: Run, prices: Mapping[str, Price]) -> RunCosts:
    """Return the cost of a run's approaches by the prices of its devices, by role."""
    costs = approach_costs(run, prices)
    sources = sorted({price.source for price in prices.values() if price.source})
    said = [cost_sentence(costs), ratio_sentence(prices)]
    if sources:
        said.append(f"Prices: {', '.join(sources)}.")
    if run.emulated_devices:
        said.append(
            "The devices of this run were emulated: its throughput is that of no drive which "
            "these prices buy."
        )
    return RunCosts(
        run_id=run.id,
        prices=prices,
        sentences=tuple(sentence for sentence in said if sentence),
        table=cost_table(costs),
        storage=storage_table(prices),
    )


def cost_table(costs: tuple[ApproachCost, ...]) -> ReportTable:
    """Return the cost of the approaches side by side."""
    currency = costs[0].currency if costs else ""
    counted, rate = _counted(costs)
    by_name = {one.approach.name: one.per_1000_tpm for one in costs}
    powered = any(one.watts is not None for one in costs)
    rows = []
    for one in costs:
        rows.append(
            Row(
                cells=(
                    one.approach.title,
                    _devices(one.roles),
                    one.price,
                    one.tpm,
                    one.per_1000_tpm,
                    ratio(one.per_1000_tpm, by_name.get(base_of(one.approach))),
                    one.per_million_transactions,
                    one.reads_per_s,
                    one.per_read_per_s,
                    *([one.reads_per_watt] if powered else []),
                )
            )
        )
    return ReportTable(
        id="cost",
        title="Cost of storage by approach",
        columns=(
            text("approach", "Approach"),
            text("devices", "Devices"),
            _money("price", f"Price, {currency}"),
            figure("tpm", rate[:1].upper() + rate[1:], Unit.COUNT),
            _money("per_1000_tpm", f"{currency} per 1,000 {rate}"),
            figure(
                "times",
                "Times the baseline's",
                Unit.RATIO,
                Source.MODELLED,
                note="that of the approach with which this one is compared",
            ),
            _money(
                "per_million_transactions",
                f"{currency} per million {counted}",
                note=f"storage written off over {WRITE_OFF_YEARS} years at this throughput",
            ),
            figure("reads_per_s", "Blocks read", Unit.PER_SECOND),
            _money("per_read_per_s", f"{currency} per block read/s"),
            *([_money("reads_per_watt", "Blocks read/s per watt")] if powered else []),
        ),
        rows=tuple(rows),
        key=("approach",),
        note="Each device that an approach uses is paid for as a whole." if rows else "",
        missing_reason="" if rows else "No approach was measured whose devices have a price.",
    )


def _devices(roles: tuple[str, ...]) -> str:
    """Name devices by their roles, with how many there are of one."""
    counts = Counter(roles)
    return " and ".join(f"{n} x {role}" if n > 1 else role for role, n in counts.items())


def storage_table(prices: Mapping[str, Price]) -> ReportTable:
    """Return the drives and price of each device, in RAID 5 too: one row each."""
    known = list(prices.values())
    iops_known = any(price.iops is not None for price in known)
    watts_known = any(price.watts is not None for price in known)
    listed = []
    for name, price in prices.items():
        listed.append((name, price))
        five = as_raid5(price)
        if price.raid is Raid.RAID10 and five.drives < price.drives:
            listed.append((f"{name}, were it RAID 5", five))
    first_per_gb = per_gb(known[0]) if known else None
    rows = [
        _storage_row(name, price, first_per_gb, iops=iops_known, watts=watts_known)
        for name, price in listed
    ]
    currency = next((price.currency for price in known), "")
    return ReportTable(
        id="storage",
        title="What the devices cost",
        columns=(
            text("device", "Device"),
            figure("drives", "Drives", Unit.COUNT),
            text("raid", "RAID"),
            figure("unit_price", f"A drive, {currency}", Unit.COUNT),
            figure("enclosure_price", f"Enclosure, {currency}", Unit.COUNT),
            figure("price", f"Total, {currency}", Unit.COUNT),
            figure("usable", "Usable", Unit.BYTES, Source.MODELLED),
            _money("per_gb", f"{currency} per vendor's GB", note="a vendor's GB is 10^9 bytes"),
            figure("per_gb_times", "A GB, times the first's", Unit.RATIO, Source.MODELLED),
            *(_IOPS if iops_known else ()),
            *([_money("iops_per_money", f"Reads/s per {currency}")] if iops_known else ()),
            *(_POWER if watts_known else ()),
            *([_IOPS_PER_WATT] if iops_known and watts_known else ()),
        ),
        rows=tuple(rows),
        key=("device",),
        note="RAID 5 with the fewest of the same drives that hold as much.",
    )


_IOPS = (
    figure(
        "read_iops",
        "Random reads",
        Unit.PER_SECOND,
        Source.MODELLED,
        note="number of drives times the rated IOPS of one",
    ),
    figure("mixed_iops", "Half of them writes", Unit.PER_SECOND, Source.MODELLED),
    figure("iops_per_gb", "Reads/s per GB", Unit.COUNT, Source.MODELLED),
)
_POWER = (figure("watts", "Watts", Unit.COUNT, Source.MODELLED, note="of the drives"),)
_IOPS_PER_WATT = figure("iops_per_watt", "Reads/s per watt", Unit.COUNT, Source.MODELLED)


def _over(value: float | None, by: float | None) -> float | None:
    """Return a quotient; None if a part of it is unknown, or nothing."""
    return value / by if value is not None and by else None


def _storage_row(
    name: str, price: Price, first_per_gb: float | None, *, iops: bool, watts: bool
) -> Row:
    """Return a device's row, with what is known of reads and of power if it is shown."""
    usable = usable_bytes(price)
    reads, power = random_iops(price), watts_of(price)
    total = storage_price(price)
    of_iops = (
        reads,
        random_iops(price, read_share=0.5),
        _over(reads, usable / VENDOR_GB if usable else None),
        _over(reads, total),
    )
    return Row(
        cells=(
            name,
            price.drives,
            _RAID_TITLES[price.raid],
            float(price.unit_price),
            float(price.enclosure_price),
            total,
            usable,
            per_gb(price),
            ratio(per_gb(price), first_per_gb),
            *(of_iops if iops else ()),
            *([power] if watts else ()),
            *([_over(reads, power)] if iops and watts else ()),
        )
    )


def _counted(costs: tuple[ApproachCost, ...]) -> tuple[str, str]:
    """Return what was counted, and the name of its rate per minute."""
    workloads = {one.workload for one in costs}
    (only,) = workloads if len(workloads) == 1 else ("",)
    counted = COUNTED.get(only, "operations")
    return counted, "TPM" if counted == "transactions" else f"{counted} a minute"


def cost_sentence(costs: tuple[ApproachCost, ...]) -> str:
    """Say which approach costs least for its throughput; "" without two approaches.

    Only those that are compared with the baseline ran its load.
    """
    having = [
        one for one in costs if one.per_1000_tpm is not None and base_of(one.approach) == BASELINE
    ]
    base = next((one for one in having if one.approach.name == BASELINE), None)
    if base is None or len(having) < 2:
        return ""
    _, rate = _counted(costs)
    best = min(having, key=lambda one: one.per_1000_tpm or math.inf)
    per_base, per_best = base.per_1000_tpm or 0.0, best.per_1000_tpm or 0.0
    if best is base:
        return (
            f"No approach costs less for its throughput than {base.approach.title.lower()}: "
            f"{money(per_base, base.currency)} of storage per 1,000 {rate}."
        )
    return (
        f"{best.approach.title} costs least for its throughput: {money(per_best, best.currency)} "
        f"of storage per 1,000 {rate} against {money(per_base, best.currency)} with "
        f"{base.approach.title[:1].lower()}{base.approach.title[1:]}, "
        f"{percent(1 - per_best / per_base)} less."
    )


def ratio_sentence(prices: Mapping[str, Price]) -> str:
    """Say how much more a GB of flash costs; "" if a capacity is unknown."""
    parts = [per_gb(prices[role]) if role in prices else None for role in ("flash", "array")]
    times = _over(parts[0], parts[1])
    if times is None or parts[0] is None or parts[1] is None:
        return ""
    return (
        f"A GB of flash costs {three(times)} times what one of the array costs: "
        f"{money(parts[0], prices['flash'].currency)} against "
        f"{money(parts[1], prices['array'].currency)}."
    )


def _money(name: str, title: str, *, note: str = "") -> Column:
    return figure(name, title, Unit.COUNT, Source.MODELLED, note=note)
