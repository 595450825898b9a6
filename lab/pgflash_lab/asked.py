# SPDX-License-Identifier: PostgreSQL
"""Turn a request to the lab into orders: one scenario or all, new or continued.

A request to continue a run need not repeat how it was ordered: without --preset and --set, the
run's own are used.  If they are given, they must be the same, or the run refuses.

UNFINISHED asks for the scenario's latest run if it has not finished, and otherwise for a
new one.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import UsageError
from pgflash_lab.model.run import Run
from pgflash_lab.model.stored import StoredRunError
from pgflash_lab.order import Order
from pgflash_lab.postgres import PgInstall
from pgflash_lab.scenario import Scenario, load_scenario
from pgflash_lab.series import load_again, load_all
from pgflash_lab.store import RUN_FILE, Store, read_run
from pgflash_lab.throttled import Limits

#: Instead of a run's id: the latest if it is unfinished.
UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request, in the form of lab_run() and its command."""

    scenario: str
    preset: str
    changes: Mapping[str, str]
    resume: str
    install: PgInstall
    store: Store
    out: Path | None
    real: tuple[Path, Path] | None
    limits: Limits | None = None

    @property
    def is_plain(self) -> bool:
        """Tell whether the request leaves the parameters alone."""
        return not self.preset and not self.changes

    def order(
        self,
        scenario: Scenario,
        *,
        out: Path | None,
        resumed: Run | None = None,
        or_new: bool = False,
    ) -> Order:
        """Return the order of a scenario."""
        return Order(
            scenario=scenario,
            install=self.install,
            store=self.store,
            out=out,
            resumed=resumed,
            or_new=or_new,
            real=self.real,
            limits=self.limits,
        )


def order_one(asked: Asked) -> Order:
    """Return the order of one scenario."""
    if not asked.resume:
        scenario = load_scenario(asked.scenario, preset=asked.preset, changes=asked.changes)
        return asked.order(scenario, out=asked.out)
    if asked.resume == UNFINISHED:
        scenario = load_scenario(asked.scenario, preset=asked.preset, changes=asked.changes)
        resumed = _unfinished(asked)
        return asked.order(scenario, out=asked.out, resumed=resumed, or_new=True)
    folder = _folder_of(asked)
    run = asked.store.read(str(folder))
    preset, changes = asked.preset, asked.changes
    if asked.is_plain:
        preset, changes = run.preset, run.parameters
    scenario = load_scenario(asked.scenario, preset=preset, changes=changes)
    return asked.order(scenario, out=folder, resumed=run)


def order_all(asked: Asked) -> list[Order]:
    """Return the orders of all scenarios."""
    if asked.out is not None:
        raise UsageError(
            "--out names the folder of one run", hint="Name a store for all: --store FOLDER."
        )
    if asked.resume and asked.is_plain:
        scenarios = load_again(asked.store, asked.resume)
    else:
        scenarios = load_all(asked.preset, asked.changes)
    return [asked.order(scenario, out=None) for scenario in scenarios]


def _unfinished(asked: Asked) -> Run | None:
    """Return the scenario's latest run if it has not finished."""
    try:
        run = read_run(_folder_of(dataclasses.replace(asked, resume="latest")) / RUN_FILE)
    except StoredRunError:
        return None
    return run if run.stopped or not run.ended_at else None


def _folder_of(asked: Asked) -> Path:
    """Return the folder of the run to continue."""
    if asked.resume != "latest":
        return asked.store.find(asked.resume)
    if asked.out is not None:
        return asked.store.find(str(asked.out))
    # A user's own scenario is named inside its file.
    name = load_scenario(asked.scenario).name
    ids = [one for one in asked.store.ids() if one.endswith(f"-{name}")]
    if not ids:
        raise StoredRunError(
            f'there is no run of {name} in "{asked.store.runs}" to resume',
            hint="One that ended before its first attempt has nothing to resume: run it again.",
        )
    return asked.store.folder(ids[-1])
