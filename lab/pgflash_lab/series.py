# SPDX-License-Identifier: PostgreSQL
"""Run every scenario, one by one, as a series that can be continued.

A series is a small file that says what was ordered; its runs are ordinary ones whose ids begin with
the series' own.  To continue a series, we skip the runs that are finished, continue the unfinished
one, and make the others.  A scenario that fails is named at the end and does not stop the others
from running; an interrupt ends them all.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from pgflash.errors import PgflashError
from pgflash.progress import Listener, Titled
from pgflash_lab.attempt import expected_s
from pgflash_lab.model.run import Run
from pgflash_lab.order import Order, ResumeError, require_extension
from pgflash_lab.run import run_scenario
from pgflash_lab.scenario import Scenario, load_scenario, scenario_names
from pgflash_lab.store import REPORT_FILE, RUN_FILE, Store, write_file

#: The preset for a series that is to end within an hour.
PRESET = "quick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A scenario of a series: its run, or why there is none."""

    scenario: str
    run: Run | None
    failed: str = ""
    #: The file of its report.
    report: Path | None = None


def load_all(preset: str, changes: Mapping[str, str]) -> list[Scenario]:
    """Return our scenarios that follow a paper; the default preset is PRESET, if they have it."""
    chosen = []
    for name in scenario_names():
        scenario = load_scenario(name)
        if scenario.paper:
            quick = PRESET if PRESET in scenario.presets else ""
            chosen.append(load_scenario(name, preset=preset or quick, changes=changes))
    return chosen


def load_again(store: Store, name: str) -> list[Scenario]:
    """Return the scenarios as a series ordered them; NAME is its id or "latest"."""
    return [
        load_scenario(one, preset=ordered["preset"], changes=ordered["parameters"])
        for one, ordered in _read(_find(store, name))["scenarios"].items()
    ]


def run_series(
    orders: Sequence[Order], listener: Listener, *, store: Store, resume: str = ""
) -> list[Ended]:
    """Run the orders in sequence; RESUME names a series to continue, or "latest"."""
    for order in orders:
        require_extension(order)
    what = _described(orders)
    if resume:
        series = _find(store, resume)
        if _read(series) != what:
            raise ResumeError(
                f"series {series.stem} was ordered otherwise",
                hint=f'"{series}" says how: order it so, or begin a new one without --resume.',
            )
    else:
        series = _folder(store) / f"{datetime.now(tz=UTC):%Y%m%d-%H%M%S}.json"
        write_file(series, json.dumps(what, indent=1).encode() + b"\n")
    listener.note(f"series {series.stem}: {', '.join(one.scenario.name for one in orders)}")
    ended = []
    for place, order in enumerate(orders):
        name = order.scenario.name
        later_s = sum(_expected_s(one.scenario) for one in orders[place + 1 :])
        told = _Onward(listener, title=name, later_s=later_s)
        try:
            run = _go_on(order, f"{series.stem}-{name}", told)
            report = store.folder(run.id) / REPORT_FILE
            ended.append(Ended(scenario=name, run=run, report=report))
        except (PgflashError, psycopg.Error, OSError) as error:
            listener.note(f"{name} failed: {error}")
            ended.append(Ended(scenario=name, run=None, failed=str(error)))
    return ended


def _go_on(order: Order, run_id: str, listener: Listener) -> Run:
    """Return a run of a series if it has ended; otherwise continue it or begin it."""
    stored = None
    if (order.store.folder(run_id) / RUN_FILE).is_file():
        stored = order.store.read(run_id)
        if stored.ended_at and not stored.stopped:
            listener.note(f"{run_id} has been run")
            return stored
    return run_scenario(dataclasses.replace(order, id=run_id, resumed=stored), listener)


class _Onward(Titled):
    """Passes on one scenario's messages, adding the time that later scenarios will take."""

    def __init__(self, listener: Listener, *, title: str, later_s: float) -> None:
        super().__init__(listener, title)
        self._later_s = later_s

    def plan(self, expected_s: float) -> None:
        super().plan(expected_s + self._later_s)


def _expected_s(scenario: Scenario) -> float:
    return sum(expected_s(scenario, approach) for approach, _ in scenario.order())


def _described(orders: Sequence[Order]) -> dict[str, Any]:
    """Return, as JSON, the values that identify a series."""
    return {
        "postgres_version": orders[0].install.version,
        "devices": [str(one) for one in (*(orders[0].real or ()), orders[0].limits) if one],
        "scenarios": {
            order.scenario.name: {
                "preset": order.scenario.preset,
                "parameters": order.scenario.parameters.as_text(),
            }
            for order in orders
        },
    }


def _read(series: Path) -> dict[str, Any]:
    """Return what a series had ordered."""
    try:
        found: dict[str, Any] = json.loads(series.read_text())
        return found
    except (OSError, ValueError) as error:
        raise ResumeError(f'could not read "{series}": {error}') from error


def _folder(store: Store) -> Path:
    return store.root / "series"


def _find(store: Store, name: str) -> Path:
    """Return a series' file by its id, or the latest."""
    known = sorted(_folder(store).glob("*.json"))
    found = known[-1:] if name == "latest" else [one for one in known if one.stem == name]
    if not found:
        raise ResumeError(
            f'there is no series "{name}" in "{_folder(store)}"',
            hint="Begin one: pgflash lab run all.",
        )
    return found[0]
