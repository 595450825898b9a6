# SPDX-License-Identifier: PostgreSQL
"""Paper 000's figure 15: the cost of the drives, and of throughput on them.

It is computed from the paper's own prices and our throughput: our devices are emulated and have no
price.  For prices of their own, users run 'pgflash cost'.
"""

from collections.abc import Sequence
from dataclasses import replace

from pgflash.analyze.cost import approach_costs, as_raid5, cost_table, storage_price
from pgflash.model.awr import Column, ReportTable, Source, Unit
from pgflash.model.exhibit import Chart, ChartForm, ChartSeries, Exhibit
from pgflash.model.paper import Paper, paper_figure, paper_prices, printed_number
from pgflash.model.run import Run
from pgflash.model.summary import BASELINE
from pgflash.report.paper import checks, parts

_ALL = "all-on-flash"
_HOUR_MINUTES = 60


def cost_exhibit(paper: Paper, run: Run) -> Exhibit:
    """Return figure 15."""
    prices = paper_prices(paper.id)
    costs = approach_costs(run, prices)
    own = {one.approach.name: one for one in costs}
    theirs = {
        one.approach.name: 1000 * one.price / (found.commits / _HOUR_MINUTES)
        for one in costs
        if (found := paper_figure(one.approach.name)) is not None
    }
    mine = {name: own[name].per_1000_tpm for name in (BASELINE, _ALL) if name in own}
    data = paper.table("fig-15")
    drives_said = paper.table("raid-5").number("RAID 5 instead of RAID 10", "Drives")
    iops = [printed_number(cell) for cell in data.row("SQL IOPS during OLTP Test")[1:]]
    reads = [own[name].reads_per_s if name in own else None for name in (_ALL, BASELINE)]
    currency = prices["array"].currency
    five = as_raid5(prices["flash"])
    paper_times = {name: _over(one, theirs.get(BASELINE)) for name, one in theirs.items()}
    return parts.exhibit_of(
        paper,
        "fig-15",
        ours=_with_paper(cost_table(costs), [paper_times.get(one.approach.name) for one in costs]),
        charts=(
            Chart(
                form=ChartForm.BARS,
                title="Storage for each 1,000 TPM",
                unit="times the baseline's",
                labels=tuple(one.approach.title for one in costs),
                series=(
                    ChartSeries(
                        name="paper",
                        values=tuple(paper_times.get(one.approach.name) for one in costs),
                        of_paper=True,
                    ),
                    ChartSeries(
                        name="here",
                        values=tuple(_over(one.per_1000_tpm, mine.get(BASELINE)) for one in costs),
                    ),
                ),
            ),
        ),
        checks=checks.checks(
            checks.is_true(
                five.drives == drives_said,
                yes=f"In RAID 5, {five.drives} of the flash drives would hold as much, as the "
                f"paper says, for {currency} {storage_price(five):,.0f}.",
                no=f"In RAID 5, {five.drives} of the flash drives would hold as much, and not "
                f"{drives_said:g} as the paper says.",
            )
            if drives_said is not None
            else None,
            checks.same_direction(
                "Storage for each 1,000 transactions a minute, from disks to flash,",
                paper=(theirs.get(BASELINE), theirs.get(_ALL)),
                ours=(mine.get(BASELINE), mine.get(_ALL)),
                unit=currency,
            ),
            checks.within(
                "Throughput on flash is so many times cheaper",
                paper=_over(theirs.get(BASELINE), theirs.get(_ALL)),
                ours=_over(mine.get(BASELINE), mine.get(_ALL)),
            ),
            checks.within(
                "Flash serves so many times the reads a second of the disks",
                paper=_over(iops[0], iops[1]),
                ours=_over(reads[0], reads[1]),
            ),
        ),
        reason="The prices are the paper's; the throughput is that of this machine, whose absolute "
        "numbers say nothing of those drives. Their ratio does: it goes with the ratio of "
        "throughput above.",
        missing=parts.why_missing(run, (BASELINE, _ALL), BASELINE, _ALL),
    )


def _with_paper(table: ReportTable, times: Sequence[float | None]) -> ReportTable:
    """Return the table of costs with the paper's ratios in an additional column."""
    place = table.index("times") + 1
    title = Column(
        name="paper_times",
        title="In the paper",
        unit=Unit.RATIO,
        source=Source.MODELLED,
        note="its prices over its own throughput, as a multiple of its baseline's",
    )
    return replace(
        table,
        columns=(*table.columns[:place], title, *table.columns[place:]),
        rows=tuple(
            replace(row, cells=(*row.cells[:place], one, *row.cells[place:]))
            for row, one in zip(table.rows, times, strict=True)
        ),
    )


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None
