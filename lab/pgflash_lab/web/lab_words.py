# SPDX-License-Identifier: PostgreSQL
"""The lab's runs in words, from the answer of /live/lab."""

from collections.abc import Mapping, Sequence
from typing import Any

from pgflash.analyze.grid import row, text
from pgflash.live.tables import number
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.words import duration, figure, sentence, size, things
from pgflash.report.drawing import figures_of
from pgflash.report.printed import PrintedTable, print_table

Row = Mapping[str, Any]


def lab(view: Row) -> dict[str, object]:
    """Return the sentence, the overview and each run."""
    runs: Sequence[Row] = view["runs"]
    return {
        "sentence": _sentence(view),
        "overview": print_table(
            ReportTable(
                id="runs-there-are",
                title="Runs",
                columns=(
                    text("run", "Run"),
                    text("scenario", "Scenario"),
                    text("began", "Began"),
                    text("state", "State"),
                    text("attempts", "Attempts"),
                ),
                rows=tuple(
                    row(
                        str(run["id"]),
                        " ".join(filter(None, (run["scenario"], run["preset"]))) or None,
                        str(run["started_at"])[:16].replace("T", " ") or None,
                        str(run["state"]),
                        _attempts(run),
                    )
                    for run in runs
                ),
            )
        ),
        "runs": [_run(run) for run in runs],
    }


def _sentence(view: Row) -> str:
    running = [run for run in view["runs"] if run["progress"] is not None]
    if view["missing"]:
        return " ".join(f"No {name}: {why}." for name, why in view["missing"].items())
    found = things(int(view["runs_all"]), "run")
    if not running:
        return f"There {'is' if view['runs_all'] == 1 else 'are'} {found}; none is being made."
    left = running[0]["progress"]["left_s"]
    ends = f", about {duration(float(left))} are left" if left is not None else ""
    return f"Of {found} {len(running)} is being made: {running[0]['id']}{ends}."


def _attempts(run: Row) -> str:
    return f"{run['attempts']} of {run['planned']}" if run["planned"] else str(run["attempts"])


def _run(run: Row) -> dict[str, object]:
    state = f"{run['state']}: {run['why']}" if run["why"] else str(run["state"])
    words = [f"{state[:1].upper()}{state[1:]}, {_attempts(run)} attempts."]
    if run["emulated"]:
        words.append("Devices are emulated.")
    return {
        "id": run["id"],
        "title": run["title"],
        "words": " ".join(words),
        "sentences": run["sentences"],
        "links": [*run["pages"], *run["files"]],
        "progress": _progress(str(run["id"]), run["progress"]),
        "table": _approaches(run) if run["approaches"] else None,
    }


def _progress(run_id: str, progress: Row | None) -> dict[str, object] | None:
    if progress is None:
        return None
    left = progress["left_s"]
    words = str(progress["stage"] or "beginning")
    if left is not None:
        words += f"; about {duration(float(left))} are left"
    return {
        "words": f"{words[:1].upper()}{words[1:]}.",
        "share": progress["share"],
        "notes": progress["attempt_notes"][-3:],
        "throughput": _throughput(run_id, progress) if progress["seconds"] else None,
    }


def _throughput(run_id: str, progress: Row) -> dict[str, object]:
    """Return what the load of an attempt does now, its charts and their table."""
    seconds: Sequence[Row] = progress["seconds"]
    devices = tuple(dict.fromkeys(name for one in seconds for name in one["bytes_per_s"]))
    counted = str(progress["counted"])
    per_s = tuple(one["per_s"] for one in seconds)
    moved = {name: tuple(one["bytes_per_s"].get(name) for one in seconds) for name in devices}
    at_s = tuple(float(one["at_s"]) for one in seconds)
    counts = any(value is not None for value in per_s)
    table = ReportTable(
        id=f"throughput-{run_id}",
        title="Throughput, second by second",
        columns=(
            number("at_s", "Second", Unit.SECONDS),
            *([number("per_s", sentence(counted), Unit.PER_SECOND)] if counts else []),
            *([number("latency_ms", "Mean time", Unit.MILLISECONDS)] if counts else []),
            *(number(name, sentence(name), Unit.BYTES_PER_SECOND) for name in devices),
        ),
        rows=tuple(
            row(
                one["at_s"],
                *([one["per_s"], one["latency_ms"]] if counts else []),
                *(one["bytes_per_s"].get(name) for name in devices),
            )
            for one in seconds
        ),
    )
    charts = [
        Chart(
            form=ChartForm.LINES,
            title=f"{sentence(counted)} a second",
            narrow=True,
            at_s=at_s,
            series=(ChartSeries(name=sentence(counted), values=per_s),),
        )
    ]
    charts.append(
        Chart(
            form=ChartForm.LINES,
            title="Read and written by the devices",
            unit="MB/s",
            narrow=True,
            at_s=at_s,
            series=tuple(
                ChartSeries(
                    name=name,
                    values=tuple(None if one is None else one / 2**20 for one in values),
                )
                for name, values in moved.items()
            ),
        )
    )
    return {
        "words": _now(progress["attempt"], counted, seconds[-1]),
        "figures": figures_of(charts if counts else charts[1:], about=table.title),
        "table": print_table(table),
    }


def _now(attempt: str, counted: str, last: Row) -> str:
    """Say what the last second was like."""
    parts = []
    if last["per_s"] is not None:
        each = "" if last["latency_ms"] is None else f", {figure(last['latency_ms'])} ms each"
        parts.append(f"{figure(last['per_s'])} {counted} a second{each}")
    parts += [f"{name} {size(moved)}/s" for name, moved in last["bytes_per_s"].items()]
    return f"{attempt}: {'; '.join(parts)}."


def _approaches(run: Row) -> PrintedTable:
    table = ReportTable(
        id=f"approaches-{run['id']}",
        title="Approaches",
        columns=(
            text("approach", "Approach"),
            number("attempts", "Attempts", Unit.COUNT),
            number("tpm", "Transactions a minute", Unit.COUNT),
            number("duration_s", "Took", Unit.SECONDS),
            number("p95_ms", "p95", Unit.MILLISECONDS),
            number("read_ms", "Read", Unit.MILLISECONDS),
            number("hit_ratio", "Hit ratio", Unit.SHARE),
            number("ratio", "Times the baseline", Unit.RATIO),
        ),
        rows=tuple(
            row(
                str(one["title"]),
                one["attempts"],
                one["tpm"],
                one["duration_s"] or None,
                one["p95_ms"],
                one["read_ms"],
                one["hit_ratio"],
                one["ratio"],
            )
            for one in run["approaches"]
        ),
    )
    return print_table(table)
