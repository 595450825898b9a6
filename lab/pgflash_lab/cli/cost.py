# SPDX-License-Identifier: PostgreSQL
"""pgflash cost: what each approach's storage costs for the throughput that was measured on it."""

from dataclasses import asdict
from pathlib import Path

import click

from pgflash.cli.options import examples, form_option, paged_option
from pgflash.cli.output import print_csv, print_json, say_explained, say_text
from pgflash.model.awr import Cell, ReportTable, plain
from pgflash_lab import api
from pgflash_lab.cli.options import runs_option


@click.command(
    "cost",
    epilog=examples(
        "pgflash cost",
        "pgflash cost --run latest --prices prices.toml",
        "pgflash cost --paper 004",
        "pgflash cost --format csv",
    ),
)
@click.option(
    "--run",
    "run",
    default="latest",
    show_default=True,
    help='Run of the lab: an id, "latest", or a path.',
)
@click.option(
    "--prices",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File (TOML) with the prices of the devices array and flash.",
)
@click.option(
    "--paper",
    default="",
    metavar="NUMBER",
    help="Use the prices in this paper: 000, 003 or 004 (default: the paper of the run if it "
    "prices each device, otherwise 000).",
)
@runs_option
@form_option()
@paged_option
def cost_command(*, run: str, prices: Path | None, paper: str, root: Path, form: str) -> None:
    """Relate the cost of storage to the throughput of a run.

    For each approach: the price of its devices per 1,000 transactions a minute, per million
    transactions until they are written off, and per read a second. Then the composition of the
    devices, the price of a GB, random reads per GB, per unit of money and per watt (if the prices
    contain them), and the cost of RAID 5.
    """
    found = api.cost(api.lab_show(run, store=root), prices=prices, paper=paper)
    if form == "json":
        print_json(_record(found))
    elif form == "csv":
        print_csv(
            [column.name for column in found.table.columns],
            (map(plain, row.cells) for row in found.table.rows),
        )
    else:
        _print(found)


def _print(found: api.RunCosts) -> None:
    for sentence in found.sentences:
        say_text(sentence)
    for table in (found.table, found.storage):
        say_explained(table)


def _record(found: api.RunCosts) -> dict[str, object]:
    return {
        "run": found.run_id,
        "sentences": list(found.sentences),
        "devices": {
            role: {key: value for key, value in asdict(price).items() if value is not None}
            for role, price in found.prices.items()
        },
        "approaches": _records(found.table),
        "storage": _records(found.storage),
    }


def _records(table: ReportTable) -> list[dict[str, Cell]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, map(plain, row.cells), strict=True)) for row in table.rows]
