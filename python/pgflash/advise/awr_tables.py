# SPDX-License-Identifier: PostgreSQL
"""The tables of an Oracle AWR or Statspack report: from text, from HTML, or pasted.

A text report lays out its tables in columns under a line of dashes; the words above the dashes are
the column heads, in up to four lines.  From 12.2 on some tables have two such lines, and rows of
two lines.  An HTML report has tables.  Text pasted from a paper or a page has lost its columns: a
line of heads, then lines of a name and numbers, separated by tabs, bars or blanks.  All forms
become the same: heads and rows of cells, as printed.  Nothing is looked up by its position, so all
versions (9.2 to 23), whose sections are in different orders, are read in the same way.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise

_DASHES = re.compile(r"^\s*[-~]{2,}(\s+[-~]{2,})+\s*$")
_COLUMN = re.compile(r"[-~]{2,}")
_HEAD_LINES = 4
#: The line of dashes that ends a section has only one column.
_END = re.compile(r"^\s+-{20,}\s*$")
#: What SQL*Plus prints at the top of each of its pages.
_PAGE = re.compile(r"\n\s*\nOUTPUT\n(-{10,}\n)?")

_PASTED_HEAD = re.compile(r"^\W*(Event|Wait Class)\b.*\bWaits\b.*\bTime", re.I)
#: The heads of pasted tables in the order in which they are tried.
_PASTED_COLUMNS = re.compile(
    r"(?P<waits>\bWaits\b(?!\s*/))"
    r"|(?P<average>\b(?:Avg|Average)\s*Wait\b\s*(?:\(ms\))?|\bWait\s*Avg\b\s*(?:\(ms\))?)"
    r"|(?P<seconds>\bTotal Wait Time\b\s*(?:\(s(?:ec)?\))?|\b(?:Wait )?Time\s*\(s(?:ec)?\))"
    r"|(?P<share>%\s*(?:of\s+)?(?:DB|Total|Total Call|Total Ela)\s*Time\b)"
    r"|(?P<sessions>\b(?:Avg|Average)\s*Active(?:\s*Sessions)?\b)"
    r"|(?P<timeouts>%\s*Time\s*-?outs?)"
    r"|(?P<per_txn>\bWaits\s*/\s*txn\b)"
    r"|(?P<kind>\bWait\s*Class\b|\bClass\b)",
    re.I,
)
_PASTED_NAMES = {
    "waits": "Waits",
    "average": "Avg Wait (ms)",
    "seconds": "Total Wait Time (s)",
    "share": "% DB time",
    "sessions": "Avg Active Sessions",
    "timeouts": "%Time-outs",
    "per_txn": "Waits /txn",
}
_CLASSES = frozenset(
    {
        "administrative",
        "application",
        "cluster",
        "commit",
        "concurrency",
        "configuration",
        "network",
        "other",
        "scheduler",
        "system i/o",
        "user i/o",
    }
)
_CPU = frozenset({"db cpu", "cpu time"})
_NUMBER = re.compile(
    r"^[+-]?(?:[\d,]*\.?\d+|\d[\d,]*\.)(?:E[+-]?\d+)?(?:ns|us|ms|s|K|M|G|T|%)?$", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwrTable:
    """Heads, and rows with as many cells, as printed."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: The words above it: a section's title, or the summary of an HTML table.
    title: str = ""
    #: It had lost its columns.
    pasted: bool = False

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

    def is_about(self, word: str) -> bool:
        """Tell whether the title has a word."""
        return word in self.title.lower()


def read_awr(text: str) -> tuple[list[AwrTable], str]:
    """Return all tables of a report, and its text without markup, a line for each row."""
    if is_html(text):
        reader = _Reader()
        reader.feed(text)
        reader.close()
        words = "\n".join(reader.lines)
        if reader.tables:
            return reader.tables, words
    else:
        words = _PAGE.sub("\n", text.replace("\r\n", "\n").replace("\f", "\n"))
    lines = words.splitlines()
    return [*_text_tables(lines), *_pasted_tables(lines)], words


def is_html(text: str) -> bool:
    """Tell the two forms apart."""
    return re.search(r"<\s*(html|table)\b", text[:20_000], re.I) is not None


def _plain(words: str) -> str:
    return re.sub(r"[^a-z0-9%]", "", words.lower())


# Text.


def _text_tables(lines: list[str]) -> Iterator[AwrTable]:
    title, index = "", 0
    while index < len(lines):
        line = lines[index]
        if "DB/Inst:" in line:
            title = line.partition("DB/Inst:")[0].strip()
        elif _END.match(line):
            title = ""
        elif _DASHES.match(line):
            spans = _spans(line)
            heads = _heads(lines[max(index - _HEAD_LINES, 0) : index], spans)
            second = _second_dashes(lines, index)
            if second is None:
                rows = list(_rows(lines[index + 1 :], spans))
            else:
                below = _spans(lines[second])
                heads += _heads(lines[index + 1 : second], below)
                rows = list(_double_rows(lines[second + 1 :], spans, below))
                index = second
            if rows:
                above = _underlined(lines[max(index - _HEAD_LINES - 1, 0) : index])
                yield AwrTable(heads=heads, rows=tuple(rows), title=above or title)
        index += 1


def _underlined(lines: list[str]) -> str:
    """Return the title that a line of tildes underlines."""
    for above, below in pairwise(lines):
        if below.startswith("~~~~"):
            return above.strip()
    return ""


def _spans(line: str) -> list[tuple[int, int]]:
    return [match.span() for match in _COLUMN.finditer(line)]


def _second_dashes(lines: list[str], first: int) -> int | None:
    """Return the line of the second dashes of a table whose rows have two lines."""
    for index in range(first + 2, min(first + 4, len(lines))):
        if not all(line.strip() for line in lines[first + 1 : index]):
            return None
        if _DASHES.match(lines[index]) and "~" not in lines[index]:
            return index
    return None


def _heads(lines: list[str], spans: list[tuple[int, int]]) -> tuple[str, ...]:
    """Put together the words above each column; an underlined title above them is not a head."""
    above: list[str] = []
    for line in reversed(lines):
        if not line.strip() or set(line.strip()) <= set("~-") or line.startswith("->"):
            break
        above.insert(0, line)
    heads = []
    before = 0
    for _start, end in spans:
        words: list[str] = []
        for line in above:
            word = line[before:end].strip()
            words = [] if word.startswith("~") else [*words, word]
        heads.append(" ".join(word for word in words if word))
        before = end
    return tuple(heads)


def _rows(lines: list[str], spans: list[tuple[int, int]]) -> Iterator[tuple[str, ...]]:
    for line in _body(lines):
        cells = _cells(line, spans)
        if any(cells):
            yield cells


def _double_rows(
    lines: list[str], above: list[tuple[int, int]], below: list[tuple[int, int]]
) -> Iterator[tuple[str, ...]]:
    body = [line for line in _body(lines) if not re.match(r"^\s+PDB:", line)]
    for first, second in zip(body[::2], body[1::2], strict=False):
        yield (*_cells(first, above), *_cells(second, below))


def _body(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip() or _DASHES.match(line) or line.lstrip().startswith("----"):
            return
        yield line


def _cells(line: str, spans: list[tuple[int, int]]) -> tuple[str, ...]:
    last = len(spans) - 1
    return tuple(
        line[start:].strip() if place == last else line[start:end].strip()
        for place, (start, end) in enumerate(spans)
    )


# Pasted text.


def _pasted_tables(lines: list[str]) -> Iterator[AwrTable]:
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if not _PASTED_HEAD.match(line) or _DASHES.match(following):
            continue
        first = re.match(r"^\W*(Event|Wait Class)\b", line, re.I)
        head = line[first.end() :] if first else line
        columns = [str(match.lastgroup) for match in _PASTED_COLUMNS.finditer(head)]
        rows = list(_pasted_rows(lines[index + 1 :], [c for c in columns if c != "kind"]))
        if not rows:
            continue
        classes = all(row[0].lower() in _CLASSES | _CPU for row in rows)
        heads = ("Wait Class" if classes else "Event", *_PASTED_NAMES.values(), "Class")
        yield AwrTable(heads=heads, rows=tuple(rows), pasted=True)


def _pasted_rows(lines: list[str], columns: list[str]) -> Iterator[tuple[str, ...]]:
    """Return rows of a name, numbers and perhaps a class, up to the first other line."""
    for line in lines:
        words = line.replace("|", " ").split()
        if not words or set(line.strip()) <= set("-|: "):
            continue
        row = _pasted_row(words, columns)
        if row is None:
            return
        yield row


def _pasted_row(words: list[str], columns: list[str]) -> tuple[str, ...] | None:
    start = next((n for n, word in enumerate(words) if n and _NUMBER.match(word)), None)
    if start is None:
        return None
    end = start
    while end < len(words) and _NUMBER.match(words[end].removesuffix(".")):
        end += 1
    name = " ".join(words[:start])
    numbers = [word.removesuffix(".") for word in words[start:end]]
    kept = list(columns)
    if name.lower() in _CPU and len(numbers) < len(columns):
        # CPU time has no waits and no average.
        kept = [column for column in columns if column not in ("waits", "average")]
    if name.lower() in _CLASSES | _CPU and len(numbers) == len(kept) + 1:
        # Classes under the heads of events: their last column is active sessions.
        kept.append("sessions")
    if len(numbers) == len(kept) - 1 and "timeouts" in kept:
        kept.remove("timeouts")  # an empty cell is none
    if len(numbers) != len(kept):
        return None
    values = dict(zip(kept, numbers, strict=True))
    kind = " ".join(words[end:]).strip(" ()")
    return (name, *(values.get(column, "") for column in _PASTED_NAMES), kind)


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
        self._title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table, a row or a cell."""
        if tag == "table":
            self._end_table()
            said = dict(attrs).get("summary") or ""
            last = self.lines[-1] if self.lines else ""
            self._title = said if len(said) > 1 else last
        elif tag == "tr":
            self._end_row()
        elif tag in ("td", "th"):
            self._end_cell()
            self._cell = []
            self._is_head = tag == "th"

    def handle_endtag(self, tag: str) -> None:
        """End a table, a row or a cell."""
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
            self.tables.append(AwrTable(heads=heads, rows=tuple(self._rows), title=self._title))
        self._heads, self._rows = [], []
