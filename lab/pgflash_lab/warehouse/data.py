# SPDX-License-Identifier: PostgreSQL
"""Where the tables' contents come from: the program tpchgen-cli.

It writes the same rows as the specification's own generator, byte for byte (PyPI: tpchgen-cli,
Apache License; a requirement of the lab).  It generates its texts again in every run, which takes a
second or two, so it is run once for all tables, but for each gigabyte of rows, into a folder that
the caller removes.
"""

import math
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pgflash.errors import PgflashError

#: The tables in the order in which they are made, with their rows at scale factor 1.
TABLES = {
    "region": 5,
    "nation": 25,
    "supplier": 10_000,
    "part": 200_000,
    "partsupp": 800_000,
    "customer": 150_000,
    "orders": 1_500_000,
    "lineitem": 6_001_215,
}
#: These do not grow with the scale factor.
FIXED_TABLES = ("region", "nation")

_PROGRAM = "tpchgen-cli"


class DataError(PgflashError):
    """The tables' contents could not be made."""


def expected_rows(scale_factor: float) -> dict[str, int]:
    """Return about how many rows the tables have."""
    return {
        name: rows if name in FIXED_TABLES else round(rows * scale_factor)
        for name, rows in TABLES.items()
    }


def find_program() -> Path:
    """Return the generator: beside the running Python, or on the path."""
    beside = Path(sys.executable).parent / _PROGRAM
    found = beside if beside.is_file() else shutil.which(_PROGRAM)
    if found is None:
        raise DataError(
            f"the program {_PROGRAM} is not installed",
            hint="Install the lab with it: pip install ./lab, in pgflash's folder.",
        )
    return Path(found)


def part_count(scale_factor: float) -> int:
    """Return the parts in which rows are made: about a gigabyte each."""
    return math.ceil(scale_factor)


def generate(
    folder: Path,
    *,
    scale_factor: float,
    part: int = 1,
    parts: int = 1,
    tables: Sequence[str] = tuple(TABLES),
) -> dict[str, Path]:
    """Write a part of each table as CSV with a heading into a folder; return the files.

    The fixed tables are in the first part, as a whole.
    """
    command: list[str | Path] = [
        find_program(), "csv", "--scale-factor", str(scale_factor), "--quiet", "--overwrite",
        "--tables", ",".join(tables), "--parts", str(parts), "--part", str(part),
        "--output-dir", folder,
    ]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    files = {
        table: folder / table / f"{table}.{part}.csv"
        for table in tables
        if part == 1 or table not in FIXED_TABLES
    }
    missing = [table for table, file in files.items() if not file.is_file()]
    if done.returncode != 0 or missing:
        why = done.stderr.strip() or f"nothing of {', '.join(missing) or 'them'}"
        raise DataError(f"could not make the tables' rows: {why}")
    return files
