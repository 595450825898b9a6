# SPDX-License-Identifier: PostgreSQL
"""The lab's runs in words, from the answer of /live/lab."""

from collections.abc import Mapping, Sequence
from typing import Any

from pgflash.analyze.words import percent, things
from pgflash.live.tables import LiveTable
from pgflash.model.sizes import digits

Row = Mapping[str, Any]

_NOTHING = "–"


def lab(view: Row) -> dict[str, object]:
    """Return the sentence, the overview and each run."""
    runs: Sequence[Row] = view["runs"]
    return {
        "sentence": _sentence(view),
        "overview": LiveTable(
            title="Runs",
            words=4,
            columns=("Run", "Scenario", "Began", "State", "Attempts"),
            rows=tuple(
                (
                    str(run["id"]),
                    " ".join(filter(None, (run["scenario"], run["preset"]))) or _NOTHING,
                    str(run["started_at"])[:16].replace("T", " ") or _NOTHING,
                    str(run["state"]),
                    _attempts(run),
                )
                for run in runs
            ),
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
    ends = f", about {_left(float(left))} are left" if left is not None else ""
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
        "progress": _progress(run["progress"]),
        "table": _approaches(run["approaches"]) if run["approaches"] else None,
    }


def _progress(progress: Row | None) -> dict[str, object] | None:
    if progress is None:
        return None
    left = progress["left_s"]
    words = str(progress["stage"] or "beginning")
    if left is not None:
        words += f"; about {_left(float(left))} are left"
    return {
        "words": f"{words[:1].upper()}{words[1:]}.",
        "share": progress["share"],
        "notes": progress["attempt_notes"][-3:],
    }


def _approaches(rows: Sequence[Row]) -> LiveTable:
    return LiveTable(
        title="Approaches",
        columns=(
            "Approach", "Attempts", "Transactions a minute", "Took s", "p95 ms", "Read ms",
            "Hit ratio", "Times the baseline",
        ),
        rows=tuple(
            (
                str(row["title"]),
                str(row["attempts"]),
                _digits(row["tpm"]),
                _digits(row["duration_s"] or None),
                _digits(row["p95_ms"]),
                _digits(row["read_ms"]),
                _NOTHING if row["hit_ratio"] is None else percent(float(row["hit_ratio"])),
                _digits(row["ratio"]),
            )
            for row in rows
        ),
    )  # fmt: skip


def _digits(value: float | None) -> str:
    return _NOTHING if value is None else digits(float(value))


def _left(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
