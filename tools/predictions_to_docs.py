#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write the table of predictions in docs/guide/advise.md from the runs that the tests keep.

tools/predictions_to_docs.py           write it
tools/predictions_to_docs.py --check   exit 1 if it is not what the runs say

The runs are kept by `pgflash lab predict RUN ... --keep tests/golden/data/predictions`; make
predictions does both.
"""

import sys
from pathlib import Path

from pgflash_lab import api, store
from pgflash_lab.api import Checked
from pgflash_lab.cli.predict import markdown, sentences

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "golden" / "data" / "predictions"
GUIDE = ROOT / "docs" / "guide" / "advise.md"

BEGIN = "<!-- written by tools/predictions_to_docs.py -->\n"
END = "<!-- end -->\n"


def kept() -> list[Checked]:
    """Return the predictions of the stored runs."""
    found = []
    for folder in sorted(path.parent for path in KEPT.glob(f"*/{store.RUN_FILE}")):
        run = api.read_run(folder / store.RUN_FILE)
        checks = api.predict_run(run, store.periods_of(folder, run))
        found.append(Checked(scenario=run.scenario, checks=checks))
    return found


def page() -> str:
    """Return the guide with the table as it should be."""
    before, begin, rest = GUIDE.read_text().partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{GUIDE} lacks the marks of the table")
    runs = kept()
    papers = Checked(scenario="papers", checks=api.predict_papers())
    with_papers = f"With the papers' below: {next(sentences([*runs, papers]))}"
    return f"{before}{BEGIN}\n{markdown(runs)}\n\n{with_papers}\n\n{END}{after}"


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
