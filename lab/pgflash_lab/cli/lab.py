# SPDX-License-Identifier: PostgreSQL
"""pgflash lab: list scenarios, run one, show runs, render their reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import bytes_of, examples, form_option, paged_option
from pgflash.cli.output import print_json, print_rows, say, say_table, write_page
from pgflash.cli.screen import Screen, patiently
from pgflash.errors import PgflashError, UsageError
from pgflash.model.awr import ReportTable, Unit
from pgflash.report.lines import WIDTH, wrap
from pgflash_lab import api
from pgflash_lab.cli.options import runs_option
from pgflash_lab.model.run import Run

#: Stands for every scenario.
ALL = "all"

#: Memory of a run on a volume whose reads are limited, unless --memory says otherwise.
_MEMORY_BYTES = 2 * 2**30

#: Columns of the result: title, key in result.json, what it counts.
_COLUMNS: tuple[tuple[str, str, Unit], ...] = (
    ("TPM", "tpm", Unit.COUNT),
    ("NOPM", "nopm", Unit.COUNT),
    ("took", "duration_s", Unit.SECONDS),
    ("p50", "p50_ms", Unit.MILLISECONDS),
    ("p95", "p95_ms", Unit.MILLISECONDS),
    ("p99", "p99_ms", Unit.MILLISECONDS),
    ("read", "read_ms", Unit.MILLISECONDS),
    ("hits", "hit_ratio", Unit.SHARE),
    ("CPU ms/tx", "server_cpu_ms_per_transaction", Unit.COUNT),
    ("server CPU", "server_cpu_share", Unit.SHARE),
    ("foreign CPU", "foreign_cpu_share", Unit.SHARE),
)


class SeriesError(PgflashError):
    """Some of all scenarios could not be run to their end."""


@click.group(epilog=examples("pgflash lab run oltp-approaches --preset demo"))
def lab() -> None:
    """Run experiments on emulated or on real devices.

    Each runs on a private PostgreSQL.
    """


@lab.command("list", epilog=examples("pgflash lab list", "pgflash lab list --format json"))
@form_option()
@paged_option
def list_command(*, form: str) -> None:
    """List the scenarios, their presets and parameters."""
    scenarios = api.lab_list()
    if form == "table":
        for one in scenarios:
            settings = ", ".join(f"{k}={v}" for k, v in one.parameters.as_text().items() if v)
            say(f"{one.name}: {one.title}")
            say("", *wrap(" ".join(one.about.split()), WIDTH), "")
            for title, listed in (
                ("presets", ", ".join(one.presets) or "none"),
                ("approaches", ", ".join(a.name for a in one.approaches)),
                ("parameters", settings),
            ):
                first, *more = wrap(f"{title}: {listed}", WIDTH - 4)
                say(f"  {first}", *(f"    {line}" for line in more))
            say("")
        return
    head = ("scenario", "title", "presets", "approaches")
    rows = [
        (one.name, one.title, " ".join(one.presets), " ".join(a.name for a in one.approaches))
        for one in scenarios
    ]
    print_rows(form, head, rows)


@lab.command(
    "run",
    epilog=examples(
        "pgflash lab run oltp-approaches --preset demo",
        "pgflash lab run oltp-approaches --hdd /mnt/disk --flash /mnt/ssd --set warehouses=50",
        "pgflash lab run oltp-approaches --hdd /var/tmp --flash /mnt/ssd --read-iops 500",
        "pgflash lab run pgbench --set script=mine.sql --set setup=tables.sql",
        "pgflash lab run all",
        "pgflash lab run all --resume",
    ),
)
@click.argument("scenario")
@click.option(
    "--preset",
    default="",
    help='Named set of parameters, such as demo (default with "all": quick, if there is one).',
)
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Set a parameter.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value="latest",
    default="",
    metavar="[RUN]",
    help="Resume this run, or the latest one of the scenario: make the missing attempts. "
    '"unfinished": the latest if it is unfinished, otherwise a new run.',
)
@click.option(
    "--pg-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Use this PostgreSQL instead of the embedded one.",
)
@click.option("--hdd", type=click.Path(path_type=Path), help="A folder on the real array.")
@click.option("--flash", type=click.Path(path_type=Path), help="A folder on the real flash.")
@click.option(
    "--read-iops",
    type=click.IntRange(min=1),
    help="Create a volume in the --hdd folder and limit it to this many reads per second, like a "
    "cloud volume. Needs root.",
)
@click.option(
    "--memory",
    "memory_bytes",
    metavar="SIZE",
    callback=bytes_of,
    help="Memory of the whole run with --read-iops, page cache included (default: 2GB).",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for this run (default: one in the store).",
)
@runs_option
@form_option()
def run_command(
    *,
    scenario: str,
    preset: str,
    assignments: Sequence[str],
    resume: str,
    pg_config: Path | None,
    hdd: Path | None,
    flash: Path | None,
    read_iops: int | None,
    memory_bytes: int | None,
    out: Path | None,
    root: Path,
    form: str,
) -> None:
    """Run a scenario and write its report.

    SCENARIO is a name, a file that ends in .toml, or "all": every scenario that follows a paper.
    Without --hdd and --flash both devices are emulated. The scenario pgbench runs a pgbench script
    of yours.
    """
    if memory_bytes is not None and read_iops is None:
        raise UsageError(
            "--memory needs --read-iops",
            hint="Only a volume whose reads are limited has memory of its own.",
        )
    options: dict[str, Any] = {
        "preset": preset,
        "changes": api.parse_changes(assignments),
        "resume": resume,
        "pg_config": pg_config,
        "hdd": hdd,
        "flash": flash,
        "limits": read_iops
        and api.Limits(read_iops=read_iops, memory_bytes=memory_bytes or _MEMORY_BYTES),
        "store": root,
        "out": out,
    }
    if scenario == ALL:
        _run_all(form, options)
        return
    with Screen() as screen:
        run, report = api.lab_run(scenario, **options, listener=screen)
    _print_run(run, form)
    say(f"Report: {report}", err=form != "table")


def _run_all(form: str, options: Mapping[str, Any]) -> None:
    """Run every scenario, and print what each came to."""
    with Screen() as screen:
        ended = api.lab_run_all(**options, listener=screen)
    runs = [one.run for one in ended if one.run is not None]
    if form == "json":
        print_json([api.result(run) for run in runs])
    elif form == "csv":
        rows = [(run.scenario, *row) for run in runs for row in _csv_rows(run)]
        print_rows(form, ("scenario", "approach", *(key for _, key, _ in _COLUMNS)), rows)
    else:
        for run in runs:
            say("", run.title, "")
            _print_run(run, form)
    for one in ended:
        if one.report is not None:
            say(f"Report: {one.report}", err=form != "table")
    failed = [f"{one.scenario} ({one.failed})" for one in ended if one.failed]
    if failed:
        raise SeriesError(
            f"not all scenarios could be run: {'; '.join(failed)}",
            hint="The others are stored; when the reason is gone: pgflash lab run all --resume.",
        )


@lab.command("show", epilog=examples("pgflash lab show", "pgflash lab show latest --format json"))
@click.argument("run", required=False)
@runs_option
@form_option()
@paged_option
def show_command(*, run: str | None, root: Path, form: str) -> None:
    """Show RUN (an id, "latest", or a path), or list all runs."""
    if run is not None:
        _print_run(api.lab_show(run, store=root), form)
        return
    rows = [
        (one.id, one.run.preset, str(len(one.run.attempts)), one.state)
        if one.run is not None
        else (one.id, "", "", one.state)
        for one in api.lab_runs(store=root)
    ]
    if not rows and form == "table":
        say(f"There is no run in {root / 'runs'}.")
        return
    print_rows(form, ("run", "preset", "attempts", "state"), rows)


@lab.command("report", epilog=examples("pgflash lab report latest -o report.html"))
@click.argument("run")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write, - for standard output (default: report.html beside the run).",
)
@runs_option
def report_command(*, run: str, output: Path | None, root: Path) -> None:
    """Render the report of RUN (an id, "latest", or a path) again."""
    if output is None:
        with patiently("drawing the report"):
            report = api.lab_report(run, store=root)
        say(f"Report: {report}")
        return
    with patiently("drawing the report"):
        page = api.render_report(api.lab_show(run, store=root))
    write_page(page, output, what="Report")


@lab.command("export", epilog=examples("pgflash lab export latest -o results.tar.gz"))
@click.argument("run")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write (default: the run's id.tar.gz in the current folder).",
)
@runs_option
def export_command(*, run: str, output: Path | None, root: Path) -> None:
    """Write RUN as one file that can be sent.

    RUN is an id, "latest", or a path.  The file has the run, its results and its reports: what was
    measured, the devices' and the machine's models, no names of machines or users, no paths.
    """
    say(f"Run: {api.lab_export(run, output=output, store=root)}")


def _print_run(run: Run, form: str) -> None:
    """Print what a run came to."""
    found = api.result(run)
    if form == "json":
        print_json(found)
        return
    approaches: dict[str, dict[str, Any]] = found["approaches"]
    ratios: dict[str, float] = found["ratios"]
    if form == "csv":
        print_rows(form, ("approach", *(key for _, key, _ in _COLUMNS)), _csv_rows(run))
        return
    known = [one for one in _COLUMNS if any(figures[one[1]] for figures in approaches.values())]
    papers = found["paper_ratios"]
    rows = []
    for name, one in approaches.items():
        base = one["base"]
        ratio = 1.0 if name == base else ratios.get(f"{name}/{base}")
        title = one["title"] + (" (polluted)" if one["polluted"] else "")
        beside = [papers.get(name)] if papers else []
        rows.append(row(title, ratio, *beside, *(one[key] for _, key, _ in known)))
    table = ReportTable(
        id="approaches",
        title="Approaches",
        columns=(
            text("approach", "approach"),
            figure("ratio", "ratio", Unit.RATIO),
            *([figure("paper", "paper", Unit.RATIO)] if papers else []),
            *(figure(key, title, unit) for title, key, unit in known),
        ),
        rows=tuple(rows),
    )
    say_table(table)
    for sentence in api.sentences_of(run):
        say("", *wrap(sentence, WIDTH))


def _csv_rows(run: Run) -> list[tuple[str, ...]]:
    """Return the figures of a run's approaches as plain texts."""
    return [
        (name, *("" if one[key] is None else str(one[key]) for _, key, _ in _COLUMNS))
        for name, one in api.result(run)["approaches"].items()
    ]
