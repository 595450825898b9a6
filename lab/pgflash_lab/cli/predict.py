# SPDX-License-Identifier: PostgreSQL
"""pgflash lab predict: how well the advice's model would have foretold runs of the lab."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import examples, form_option, paged_option
from pgflash.cli.output import print_json, print_records, say, say_table
from pgflash.cli.screen import patiently
from pgflash.model.advice import PredictionChecks
from pgflash.model.awr import ReportTable, Source, Unit
from pgflash.model.words import percent
from pgflash.report.awr.markdown import markdown_table
from pgflash.report.printed import print_table
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
@click.option("--papers", is_flag=True, help="Also predict the papers' own figures.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Store the input of the predictions below this folder, by scenario.",
)
@form_option("Output format.", forms=("table", "md", "csv", "json"))
@runs_option
@paged_option
def predict_command(
    *, runs: tuple[str, ...], papers: bool, keep: Path | None, form: str, root: Path
) -> None:
    """Compare the model's predictions with what runs measured.

    RUNS are ids, "latest", or paths. Without RUNS, the newest finished run of each scenario is
    used. Each approach is predicted from the report of its baseline. The median and the worst
    error follow.
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
        say_table(_table(found))
        say()
        for sentence in sentences(found):
            say(sentence)


def markdown(found: Sequence[api.Checked]) -> str:
    """Return what was predicted as a table of the guide, and what it comes to."""
    return "\n".join([markdown_rows(found), "", " ".join(sentences(found))])


def markdown_rows(found: Sequence[api.Checked]) -> str:
    """Return what was predicted as a table of the guide."""
    return "\n".join(markdown_table(print_table(_table(found, explained=False), signs=False)))


def sentences(found: Sequence[api.Checked]) -> Iterator[str]:
    """Say what the errors come to, altogether and by scenario."""
    yield _together(found).sentence
    parts = [
        f"{one.scenario} {percent(one.checks.median_error)}"
        for one in found
        if one.checks.median_error is not None
    ]
    if len(parts) > 1:
        yield f"Medians: {', '.join(parts)}."


def _together(found: Sequence[api.Checked]) -> PredictionChecks:
    return PredictionChecks(rows=tuple(row for one in found for row in one.checks.rows))


def _table(found: Sequence[api.Checked], *, explained: bool = True) -> ReportTable:
    """Return all predictions; unless they are explained, only those that could be made."""
    rows = []
    for one in found:
        for place, check in enumerate(one.checks.rows):
            scenario = "" if place else one.scenario
            cells = (scenario, check.title, check.predicted, check.measured, check.error)
            if explained:
                rows.append(row(*cells, check.note))
            elif check.predicted is not None:
                rows.append(row(*cells))
    return ReportTable(
        id="predictions",
        title="Predictions",
        columns=(
            text("scenario", "Scenario"),
            text("title", "Approach"),
            figure("predicted", "Predicted", Unit.RATIO, Source.MODELLED),
            figure("measured", "Measured", Unit.RATIO),
            figure("error", "Error", Unit.SHARE, Source.MODELLED),
            *([text("note", "How")] if explained else []),
        ),
        rows=tuple(rows),
    )


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
