# SPDX-License-Identifier: PostgreSQL
"""The specification's answers at scale factor 1, and how rows are compared with them.

The TPC distributes the 22 answers for the validation values with its generator (dbgen 3.0.1,
answers/q1.out to q22.out).  For each, answers.json has the number of rows, the first row, and a
digest of all rows in order.  The digest detects a single wrong cent in 18,314 rows as well as the
rows themselves would.  `tools/warehouse_answers.py` makes the file from the TPC's answers.

Rows are compared more strictly than clause 2.1.3.5 requires: every value exactly, decimals rounded
to the two places that the answers have.  The TPC computed two answers with inexact numbers, so
these may differ by TOLERANCES, and answers.json contains them whole: in query 9 a profit of
42,698,382.8550 is printed with 85 cents while other half cents are rounded up; in query 17
348406.02 is printed where the exact sum over 7 is 348406.054.  The clause would allow 100 dollars,
and one per cent.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, partial
from importlib import resources

#: The answers hold for this scale factor only.
ANSWERS_SCALE_FACTOR = 1.0

#: By how much the decimals of an answer may differ from the TPC's.
TOLERANCES = {9: Decimal("0.01"), 17: Decimal("0.05")}

_CENT = Decimal("0.01")
_DECIMAL = re.compile(r"-?\d+\.\d+")
_INTEGER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one query."""

    query: int
    rows: int
    digest: str
    first: tuple[str, ...]
    #: All rows, if they are not compared by their digest.
    whole: tuple[tuple[str, ...], ...] = ()

    def agrees(self, rows: Sequence[Sequence[object]]) -> bool:
        """Tell whether rows that a query returned are the answer."""
        tolerance = TOLERANCES.get(self.query)
        if tolerance is None:
            return len(rows) == self.rows and digest_rows(rows) == self.digest
        return len(rows) == len(self.whole) and all(
            len(row) == len(known) and all(map(partial(_is_near, tolerance), plain_row(row), known))
            for row, known in zip(rows, self.whole, strict=True)
        )


@cache
def read_answers() -> dict[int, Answer]:
    """Return the specification's answers by query."""
    text = resources.files(__package__).joinpath("answers.json").read_text(encoding="utf-8")
    return {
        int(query): Answer(
            query=int(query),
            rows=one["rows"],
            digest=one["digest"],
            first=tuple(one["first"]),
            whole=tuple(tuple(row) for row in one.get("whole", ())),
        )
        for query, one in json.loads(text).items()
    }


def plain_row(row: Sequence[object]) -> tuple[str, ...]:
    """Return a row in the form that is compared: blanks trimmed, decimals with two places."""
    return tuple(_plain(value) for value in row)


def digest_rows(rows: Iterable[Sequence[object]]) -> str:
    """Return a digest of rows in their order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update("|".join(plain_row(row)).encode() + b"\n")
    return digest.hexdigest()


def _plain(value: object) -> str:
    """Return a value of a row, or its text, in the form that is compared."""
    text = str(value).strip()
    if isinstance(value, Decimal) or _DECIMAL.fullmatch(text):
        return str(Decimal(text).quantize(_CENT, rounding=ROUND_HALF_UP))
    if _INTEGER.fullmatch(text):
        return str(int(text))
    return text


def _is_near(tolerance: Decimal, ours: str, theirs: str) -> bool:
    """Tell whether two values are equal, or are decimals that differ by no more than that."""
    if ours == theirs:
        return True
    decimals = _DECIMAL.fullmatch(ours) and _DECIMAL.fullmatch(theirs)
    return bool(decimals) and abs(Decimal(ours) - Decimal(theirs)) <= tolerance
