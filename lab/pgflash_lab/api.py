# SPDX-License-Identifier: PostgreSQL
"""The lab as a library: everything that its commands can do, under the same names.

run, page = lab_run("oltp-approaches", preset="demo")
result(run)["ratios"]["flash-cache/baseline"]

A run is named by its id, by "latest" or by a path; STORE is the folder that keeps runs and loaded
databases.  StoredRunError is raised if there is no such run or it cannot be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgflash.api.machines import read_prices
from pgflash.errors import PgflashError, UsageError
from pgflash.model.advice import PredictionChecks
from pgflash.model.device import Price
from pgflash.model.prices import PricesError, price_of
from pgflash.progress import Listener
from pgflash_lab.analyze.check import predict_run
from pgflash_lab.analyze.cost import RunCosts
from pgflash_lab.analyze.cost import run_costs as costs_of_run
from pgflash_lab.analyze.papers import predict_papers
from pgflash_lab.asked import Asked, order_all, order_one
from pgflash_lab.kept import keep_predictable
from pgflash_lab.model.exhibit import PaperPage
from pgflash_lab.model.paper import paper_prices, priced_papers, read_paper_file
from pgflash_lab.model.run import Run
from pgflash_lab.model.stored import StoredRunError
from pgflash_lab.model.summary import summarize
from pgflash_lab.pages import paper_page, write_products
from pgflash_lab.postgres import PgInstall
from pgflash_lab.report import render_page as render_report
from pgflash_lab.report import result, sentences
from pgflash_lab.report.paper import PAPER_FORMS, PaperForm, render_paper, render_paper_html
from pgflash_lab.run import run_scenario
from pgflash_lab.scenario import Scenario, load_scenario, parse_changes, scenario_names
from pgflash_lab.series import Ended, run_series
from pgflash_lab.store import REPORT_FILE, Store, export_run, periods_of, read_run, state_of
from pgflash_lab.throttled import Limits

__all__ = [
    "PAPER_FORMS",
    "REPORT_FILE",
    "Checked",
    "Ended",
    "Limits",
    "PaperForm",
    "RunCosts",
    "Scenario",
    "StoredRun",
    "cost",
    "lab_export",
    "lab_list",
    "lab_paper",
    "lab_predict",
    "lab_report",
    "lab_run",
    "lab_run_all",
    "lab_runs",
    "lab_show",
    "paper_page",
    "parse_changes",
    "predict_papers",
    "predict_run",
    "read_run",
    "render_paper",
    "render_paper_html",
    "render_report",
    "result",
    "sentences_of",
]

#: Where the lab keeps its runs by default.
STORE = Path("out")


def cost(run: Run, *, prices: Path | None = None, paper: str = "") -> RunCosts:
    """Return the costs of a run's approaches, at the prices of a file, or of a paper.

    The default paper is the run's own, if it prices all devices, otherwise 000.  Prices are in the
    file's currency; PricesError is raised if it has no price for any of the run's devices.
    """
    if prices is None:
        return costs_of_run(run, _prices_of_paper(run, paper))
    if paper:
        raise UsageError("prices are a file's or a paper's", hint="Leave out one of the two.")
    priced = read_prices(prices)
    by_role = {
        device.role: price
        for device in run.devices
        if (price := price_of(priced, name=device.role) or price_of(priced, name=device.name))
    }
    if not by_role:
        names = " or ".join(f'"{device.role}"' for device in run.devices)
        raise PricesError(
            f'"{prices}" prices no device of this run', hint=f"Name a device {names}."
        )
    return costs_of_run(run, by_role)


def _prices_of_paper(run: Run, paper: str) -> Mapping[str, Price]:
    """Return a paper's prices by the devices' roles."""
    if not paper:
        own = paper_prices(run.paper)
        return own if {device.role for device in run.devices} <= own.keys() else paper_prices("000")
    found = paper_prices(paper)
    if not found:
        raise PricesError(
            f'no paper "{paper}" names prices',
            hint=f"Papers that do: {', '.join(priced_papers())}.",
        )
    return found


def lab_list() -> tuple[Scenario, ...]:
    """Return the scenarios, with their presets, approaches and parameters."""
    return tuple(map(load_scenario, scenario_names()))


def lab_run(
    scenario: str,
    *,
    preset: str = "",
    changes: Mapping[str, str] | None = None,
    resume: str = "",
    pg_config: Path | None = None,
    hdd: Path | None = None,
    flash: Path | None = None,
    limits: Limits | None = None,
    store: Path = STORE,
    out: Path | None = None,
    listener: Listener | None = None,
) -> tuple[Run, Path]:
    """Run a scenario, given by its name or file; return the run and its report's file.

    CHANGES are parameters, in the form of --set.  RESUME names a run to continue.  Without
    PG_CONFIG, the embedded PostgreSQL is measured; without the folders HDD and FLASH, which must be
    given together, the devices are emulated.  With LIMITS, a volume on HDD takes the array's place;
    the kernel limits its reads and the memory of all processes, which only root can ask for.  OUT
    is the run's own folder.  Raises ScenarioError, ResumeError, ExtensionMissingError, MeasureError
    or ThrottleError if it cannot be run.
    """
    order = order_one(
        _asked(scenario, preset, changes, resume, pg_config, hdd, flash, limits, store, out)
    )
    run = run_scenario(order, listener or Listener())
    return run, (order.out or order.store.folder(run.id)) / REPORT_FILE


def lab_run_all(
    *,
    preset: str = "",
    changes: Mapping[str, str] | None = None,
    resume: str = "",
    pg_config: Path | None = None,
    hdd: Path | None = None,
    flash: Path | None = None,
    limits: Limits | None = None,
    store: Path = STORE,
    out: Path | None = None,
    listener: Listener | None = None,
) -> tuple[Ended, ...]:
    """Run every scenario as lab_run() does; return each one's run, or why there is none."""
    asked = _asked("all", preset, changes, resume, pg_config, hdd, flash, limits, store, out)
    ended = run_series(order_all(asked), listener or Listener(), store=asked.store, resume=resume)
    return tuple(ended)


def _asked(
    scenario: str,
    preset: str,
    changes: Mapping[str, str] | None,
    resume: str,
    pg_config: Path | None,
    hdd: Path | None,
    flash: Path | None,
    limits: Limits | None,
    store: Path,
    out: Path | None,
) -> Asked:
    if (hdd is None) != (flash is None):
        raise UsageError(
            "--hdd and --flash go together",
            hint="Name a folder on each device, or leave both out to use emulated devices.",
        )
    if limits is not None and hdd is None:
        raise UsageError(
            "--read-iops needs a folder on a real device",
            hint="Name one for the volume and one for flash: --hdd FOLDER --flash FOLDER.",
        )
    return Asked(
        scenario=scenario,
        preset=preset,
        changes=changes or {},
        resume=resume,
        install=PgInstall.from_pg_config(pg_config) if pg_config else PgInstall.embedded(),
        store=Store(root=store),
        out=out,
        real=(hdd, flash) if hdd is not None and flash is not None else None,
        limits=limits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run of a store, or why it cannot be read."""

    id: str
    run: Run | None
    #: "finished", "not finished", "stopped: ..." or "cannot be read: ...".
    state: str


def lab_runs(*, store: Path = STORE) -> tuple[StoredRun, ...]:
    """Return the runs of a store, the oldest first."""
    runs, found = Store(root=store), list[StoredRun]()
    for name in runs.ids():
        try:
            run = runs.read(name)
        except StoredRunError as error:
            found.append(StoredRun(id=name, run=None, state=f"cannot be read: {error.message}"))
        else:
            found.append(StoredRun(id=name, run=run, state=state_of(run)))
    return tuple(found)


def lab_show(run: str = "latest", *, store: Path = STORE) -> Run:
    """Return a stored run."""
    return Store(root=store).read(run)


def lab_report(run: str = "latest", *, store: Path = STORE) -> Path:
    """Write again, beside a stored run, all that is derived from it; return the report's file."""
    return write_products(_folder(run, store), lab_show(run, store=store))


def lab_export(run: str = "latest", *, output: Path | None = None, store: Path = STORE) -> Path:
    """Write a stored run as one file, without its wait samples; return the file.

    Without OUTPUT it is ID.tar.gz in the current folder.  Unpacked, it is a folder that every
    command accepts as a run.
    """
    folder = _folder(run, store).resolve()
    path = output or Path(f"{lab_show(run, store=store).id}.tar.gz")
    export_run(folder, path)
    return path


def lab_paper(run: str = "latest", *, paper: Path | None = None, store: Path = STORE) -> PaperPage:
    """Return the page that compares a run with its paper, or with the one in a file.

    UsageError if the run follows none, PaperError if the file says what it cannot say.
    """
    stored = lab_show(run, store=store)
    given = read_paper_file(paper) if paper else None
    page = paper_page(stored, periods_of(_folder(run, store), stored), given)
    if page is None:
        raise UsageError(
            f"run {stored.id} follows no paper",
            hint="'pgflash lab list' shows which scenarios do; --paper names a file of your own.",
        )
    return page


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A run's predictions."""

    scenario: str
    checks: PredictionChecks


def lab_predict(
    runs: Sequence[str] = (),
    *,
    store: Path = STORE,
    papers: bool = False,
    keep: Path | None = None,
) -> tuple[Checked, ...]:
    """Compare the model's predictions with the runs' measurements: ratios to the baseline.

    The default for RUNS is the newest finished one of each scenario.  With PAPERS, the papers' own
    figures are included.  The data that predictions use of each run is kept below the folder KEEP.
    """
    kept, found = Store(root=store), list[Checked]()
    for name in runs or _newest(store):
        folder = kept.find(name)
        run = kept.read(str(folder))
        reports = periods_of(folder, run)
        checks = predict_run(run, reports)
        found.append(Checked(scenario=run.scenario, checks=checks))
        if keep is not None and checks.errors:
            keep_predictable(keep / run.scenario, run, reports)
    if papers:
        found.append(Checked(scenario="papers", checks=predict_papers()))
    return tuple(found)


def _newest(store: Path) -> list[str]:
    """Return the newest finished run of each scenario."""
    newest = {
        one.run.scenario: one.id
        for one in lab_runs(store=store)
        if one.run is not None and one.run.ended_at and not one.run.stopped
    }
    if not newest:
        raise PgflashError(
            f'there is no finished run in "{Store(root=store).runs}"',
            hint="Make some: pgflash lab run all; or name folders of runs.",
        )
    return list(newest.values())


def _folder(run: str, store: Path) -> Path:
    """Return the folder of a stored run."""
    path = Path(run)
    return path.parent if path.is_file() else Store(root=store).find(run)


def sentences_of(run: Run) -> list[str]:
    """Return the sentences at the head of a run's report."""
    summaries = summarize(run)
    return [sentences.headline(run, summaries), *sentences.cautions(run, summaries)]
