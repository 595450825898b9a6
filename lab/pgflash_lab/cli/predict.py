# SPDX-License-Identifier: PostgreSQL
"""pgflash lab predict: how well the advice's model would have foretold runs of the lab."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich import box
from rich.console import Console

from pgflash.cli.options import examples, form_option
from pgflash.cli.output import Table, print_json, print_records, say
from pgflash.cli.screen import patiently
from pgflash.model.advice import PredictionCheck, PredictionChecks
from pgflash_lab import api
from pgflash_lab.cli.options import runs_option


@click.command(
    "predict",
    epilog=examples(
        "pgflash lab predict",
        "pgflash lab predict latest --papers",
        "pgflash lab predict out/runs/20261122-* --format md --keep kept",
    ),
)
@click.argument("runs", nargs=-1)
@click.option("--papers", is_flag=True, help="Also the papers' own figures.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep what predictions read of each run below this folder, by scenario.",
)
@form_option("How the comparison is printed.", forms=("table", "md", "csv", "json"))
@runs_option
def predict_command(
    *, runs: tuple[str, ...], papers: bool, keep: Path | None, form: str, root: Path
) -> None:
    """Set the model's predictions beside what RUNS (ids, "latest", or paths) measured.

    Without RUNS: the newest finished one of each scenario.  Each approach is predicted from
    the report of what it is compared with; the median and the worst error stand below.
    """
    with patiently("predicting"):
        found = api.lab_predict(runs, store=root, papers=papers, keep=keep)
    _print(found, form)


def _print(found: Sequence[api.Checked], form: str) -> None:
    if form == "json":
        print_json({"predictions": _records(found), **_errors(found)})
    elif form == "csv":
        columns = ("scenario", "approach", "title", "predicted", "measured", "error", "note")
        print_records(columns, _records(found))
    elif form == "md":
        say(*markdown(found).split("\n"))
    else:
        _print_table(found)
        for sentence in sentences(found):
            say(sentence)


def markdown(found: Sequence[api.Checked]) -> str:
    """Return what was predicted as a table of the guide, and what it comes to."""
    lines = ["| scenario | approach | predicted | measured | error |", "|---|---|---:|---:|---:|"]
    for scenario, row in _rows(found):
        if row.predicted is not None:
            cells = (scenario, row.title, *_cells(row))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", " ".join(sentences(found))])


def sentences(found: Sequence[api.Checked]) -> Iterator[str]:
    """Say what the errors come to, altogether and by scenario."""
    yield _together(found).sentence
    parts = [
        f"{one.scenario} {100 * one.checks.median_error:.0f} %"
        for one in found
        if one.checks.median_error is not None
    ]
    if len(parts) > 1:
        yield f"Medians: {', '.join(parts)}."


def _together(found: Sequence[api.Checked]) -> PredictionChecks:
    return PredictionChecks(rows=tuple(row for one in found for row in one.checks.rows))


def _rows(found: Sequence[api.Checked]) -> Iterator[tuple[str, PredictionCheck]]:
    for one in found:
        for place, row in enumerate(one.checks.rows):
            yield ("" if place else one.scenario), row


def _cells(row: PredictionCheck) -> tuple[str, str, str]:
    if row.predicted is None or row.error is None:
        return ("", _ratio(row.measured), "")
    return (_ratio(row.predicted), _ratio(row.measured), f"{100 * row.error:+.0f} %")


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _records(found: Sequence[api.Checked]) -> list[dict[str, object]]:
    return [
        {
            "scenario": one.scenario,
            "approach": row.case,
            "title": row.title,
            "predicted": row.predicted,
            "measured": row.measured,
            "error": row.error,
            "note": row.note,
        }
        for one in found
        for row in one.checks.rows
    ]


def _errors(found: Sequence[api.Checked]) -> dict[str, object]:
    together = _together(found)
    worst = together.worst
    return {
        "median_error": together.median_error,
        "worst_error": worst.error if worst else None,
        "worst": worst.title if worst else "",
        "sentence": together.sentence,
    }


def _print_table(found: Sequence[api.Checked]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for head in ("Scenario", "Approach", "Predicted", "Measured", "Error", "How"):
        table.add_column(head, justify="right" if head in _NUMBERS else "left")
    for scenario, row in _rows(found):
        table.add_row(scenario, row.title, *_cells(row), row.note)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 160)
    console.print(table)


_NUMBERS = frozenset({"Predicted", "Measured", "Error"})
