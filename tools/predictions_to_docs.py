#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write the table of predictions in docs/guide/advise.md from the runs that the tests keep.

tools/predictions_to_docs.py           write it
tools/predictions_to_docs.py --check   exit 1 if it is not what the runs say

The runs are kept by `pgflash lab predict RUN ... --keep tests/golden/data/predictions`; make
predictions does both.  What today's lab would measure differently (OLDER) is in a table of its own
and in no median: its error today is not known.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgflash.model.advice import PredictionCheck, PredictionChecks
from pgflash_lab import api, store
from pgflash_lab.api import Checked
from pgflash_lab.cli.predict import markdown, markdown_rows, sentences
from pgflash_lab.model.run import Run

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "golden" / "data" / "predictions"
GUIDE = ROOT / "docs" / "guide" / "advise.md"

BEGIN = "<!-- written by tools/predictions_to_docs.py -->\n"
END = "<!-- end -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """Attempts that the lab has measured differently since a commit."""

    #: Of the commit, as runs have their time (ISO 8601, UTC): it concerns runs from before.
    until: str
    #: Whether it concerns an approach, by its parameters.
    concerns: Callable[[Mapping[str, str]], bool]
    why: str


def _scans_together(parameters: Mapping[str, str]) -> bool:
    several = parameters.get("phase") == "read" and int(parameters["clients"]) > 1
    return several or int(parameters.get("degree", "1")) > 1


OLDER = (
    Older(
        until="2026-11-23T17:37:06+00:00",
        concerns=_scans_together,
        why="On emulated disks several processes now "
        "[share a scan](../decisions/0061-an-emulated-scan-is-shared-by-all-processes.md), so the "
        "array is faster where parallel workers or several clients scan one table, and everything "
        "on flash gains less.",
    ),
    Older(
        until="2026-11-23T19:06:09+00:00",
        concerns=lambda parameters: parameters.get("phase") == "write",
        why="The load of `write-path` is another one now: orders and lines of TPC-H.",
    ),
)


def kept() -> tuple[list[Checked], list[Checked], list[str]]:
    """Return the predictions of the stored runs, those of older attempts apart, and why."""
    present: list[Checked] = []
    older: list[Checked] = []
    reasons: list[str] = []
    for folder in sorted(path.parent for path in KEPT.glob(f"*/{store.RUN_FILE}")):
        run = api.read_run(folder / store.RUN_FILE)
        rows = api.predict_run(run, store.periods_of(folder, run)).rows
        why = _older(run)
        present += _checked(run, (row for row in rows if row.case not in why))
        older += _checked(run, (row for row in rows if row.case in why))
        reasons += why.values()
    return present, older, list(dict.fromkeys(reasons))


def _older(run: Run) -> dict[str, str]:
    """Return the approaches of a run that would be measured differently today, and why."""
    return {
        approach.name: one.why
        for approach in run.approaches
        for one in OLDER
        if run.started_at < one.until and one.concerns({**run.parameters, **approach.changes})
    }


def _checked(run: Run, rows: Iterable[PredictionCheck]) -> list[Checked]:
    """Return these predictions of a run, if there are any."""
    checks = PredictionChecks(rows=tuple(rows))
    return [Checked(scenario=run.scenario, checks=checks)] if checks.rows else []


def page() -> str:
    """Return the guide with the table as it should be."""
    before, begin, rest = GUIDE.read_text().partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{GUIDE} lacks the marks of the table")
    runs, older, reasons = kept()
    papers = Checked(scenario="papers", checks=api.predict_papers())
    with_papers = f"With the papers' below: {next(sentences([*runs, papers]))}"
    parts = [markdown(runs), with_papers]
    if older:
        parts += [
            "The lab would measure these differently today. Their errors are those of the old "
            f"measurements, and in none of the medians. {' '.join(reasons)}",
            markdown_rows(older),
        ]
    written = "\n\n".join(parts)
    return f"{before}{BEGIN}\n{written}\n\n{END}{after}"


def main() -> int:
    """Write or check the guide."""
    if "--check" in sys.argv[1:]:
        if GUIDE.read_text() == page():
            return 0
        print(f"{GUIDE.name} does not say what the kept runs do: run tools/predictions_to_docs.py")
        return 1
    GUIDE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
