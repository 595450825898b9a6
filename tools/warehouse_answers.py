#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write the digests of the specification's answers from the TPC's own files.

    tools/warehouse_answers.py DBGEN/answers > lab/pgflash_lab/warehouse/answers.json

DBGEN is the folder of the TPC's dbgen 3.0.1, which anyone may download from tpc.org.
The files are tables with a heading; vertical bars separate the values.
"""

import json
import sys
from pathlib import Path

from pgflash_lab.warehouse.answers import TOLERANCES, digest_rows, plain_row
from pgflash_lab.warehouse.parameters import QUERIES


def read_answer(path: Path) -> list[tuple[str, ...]]:
    """Return the rows of one answer."""
    lines = path.read_text(encoding="ascii").splitlines()[1:]
    return [plain_row(line.split("|")) for line in lines if line.strip()]


def main() -> None:
    """Print the file."""
    folder = Path(sys.argv[1])
    answers: dict[str, object] = {}
    for query in QUERIES:
        rows = read_answer(folder / f"q{query}.out")
        answers[str(query)] = {
            "rows": len(rows),
            "first": rows[0],
            "digest": digest_rows(rows),
            **({"whole": rows} if query in TOLERANCES else {}),
        }
    print(json.dumps(answers, indent=0))


if __name__ == "__main__":
    main()
