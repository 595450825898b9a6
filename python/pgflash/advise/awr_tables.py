# SPDX-License-Identifier: PostgreSQL
"""The tables of an Oracle AWR report, from its text or HTML form.

A text report lays out its tables in columns under a line of dashes; the words above the dashes are
the column heads, in up to three lines.  An HTML report has tables.  Both become the same: heads and
rows of cells, all as printed.  Nothing is looked up by its position, so versions (11.2 to 19) with
their sections in another order are read in the same way.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

_DASHES = re.compile(r"^\s*[-~]{2,}(\s+[-~]{2,})+\s*$")
_COLUMN = re.compile(r"[-~]{2,}")
_HEAD_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AwrTable:
    """Heads, and rows with as many cells, as printed."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def place(self, *wanted: str) -> int | None:
        """Return the position of the column whose head is or begins with one of some words."""
        for words in wanted:
            for index, head in enumerate(self.heads):
                if _plain(head).startswith(_plain(words)):
                    return index
        return None

    def cells(self, place: int | None, row: tuple[str, ...]) -> str:
        """Return a cell; "" where there is no such column."""
        return row[place] if place is not None and place < len(row) else ""


def awr_tables(text: str) -> list[AwrTable]:
    """Return all tables of a report."""
    if is_html(text):
        reader = _Reader()
        reader.feed(text)
        reader.close()
        return reader.tables
    return list(_text_tables(text.splitlines()))


def awr_words(text: str) -> str:
    """Return the report without markup, a line for each row."""
    if not is_html(text):
        return text
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return "\n".join(reader.lines)


def is_html(text: str) -> bool:
    """Tell the two forms apart."""
    return re.search(r"<\s*(html|table)\b", text[:20_000], re.I) is not None


def _plain(words: str) -> str:
    return re.sub(r"[^a-z0-9%]", "", words.lower())


# Text.


def _text_tables(lines: list[str]) -> Iterator[AwrTable]:
    for index, line in enumerate(lines):
        if not _DASHES.match(line):
            continue
        spans = [match.span() for match in _COLUMN.finditer(line)]
        heads = _heads(lines[max(index - _HEAD_LINES, 0) : index], spans)
        rows = list(_rows(lines[index + 1 :], spans))
        if rows:
            yield AwrTable(heads=heads, rows=tuple(rows))


def _heads(lines: list[str], spans: list[tuple[int, int]]) -> tuple[str, ...]:
    """Put together the words above each column; a title between them is not a head."""
    above: list[str] = []
    for line in reversed(lines):
        if not line.strip() or set(line.strip()) <= set("~-"):
            break
        above.insert(0, line)
    heads = []
    before = 0
    for _start, end in spans:
        words = [line[before:end].strip() for line in above]
        heads.append(" ".join(word for word in words if word))
        before = end
    return tuple(heads)


def _rows(lines: list[str], spans: list[tuple[int, int]]) -> Iterator[tuple[str, ...]]:
    for line in lines:
        if not line.strip():
            return
        if _DASHES.match(line) or line.lstrip().startswith("----"):
            return
        cells = []
        for place, (start, end) in enumerate(spans):
            last = place + 1 == len(spans)
            cells.append(line[start:].strip() if last else line[start:end].strip())
        if any(cells):
            yield tuple(cells)


# HTML.


class _Reader(HTMLParser):
    """Collects tables, and the text row by row."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[AwrTable] = []
        self.lines: list[str] = []
        self._heads: list[str] = []
        self._rows: list[tuple[str, ...]] = []
        self._row: list[str] = []
        self._is_head = False
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table, a row or a cell."""
        if tag == "table":
            self._end_table()
        elif tag == "tr":
            self._end_row()
        elif tag in ("td", "th"):
            self._end_cell()
            self._cell = []
            self._is_head = tag == "th"

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if tag == "table":
            self._end_table()
        elif tag == "tr":
            self._end_row()
        elif tag in ("td", "th"):
            self._end_cell()

    def handle_data(self, data: str) -> None:
        """Take text."""
        if self._cell is not None:
            self._cell.append(data)
        elif data.strip():
            self.lines.append(data.strip())

    def close(self) -> None:
        """End the last table if its end tag is missing."""
        super().close()
        self._end_table()

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        words = " ".join("".join(self._cell).split())
        self._row.append(words)
        self._cell = None

    def _end_row(self) -> None:
        self._end_cell()
        if not self._row:
            return
        self.lines.append("  ".join(self._row))
        if self._is_head and not self._heads:
            self._heads = self._row
        else:
            self._rows.append(tuple(self._row))
        self._row = []

    def _end_table(self) -> None:
        self._end_row()
        # A table without marked heads has them in its first row.
        heads = tuple(self._heads) or (self._rows.pop(0) if len(self._rows) > 1 else ())
        if self._rows:
            self.tables.append(AwrTable(heads=heads, rows=tuple(self._rows)))
        self._heads, self._rows = [], []
