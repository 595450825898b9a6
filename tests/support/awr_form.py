# SPDX-License-Identifier: PostgreSQL
"""AWR reports in Oracle's two forms, made from tables as the papers print them."""

from html import escape

from pgflash_lab.model.paper import PaperExhibit

_WIDTHS = (30, 14, 14, 10, 8, 14)


def text_report(*tables: PaperExhibit, head: str = "") -> str:
    """Return a text report: columns under dashes, in the layout of awrrpt.sql."""
    lines = ["WORKLOAD REPOSITORY report for", "", *head.splitlines(), ""]
    for table in tables:
        lines += [table.title, "~" * len(table.title)]
        lines += _heads(table)
        lines.append(" ".join("-" * width for width in _WIDTHS))
        lines += [_line(row) for row in table.rows]
        lines += ["", "          " + "-" * 40, ""]
    return "\n".join(lines)


def html_report(*tables: PaperExhibit, head: str = "") -> str:
    """Return an HTML report."""
    parts = ["<html><head><title>AWR Report</title></head><body>", f"<pre>{escape(head)}</pre>"]
    for table in tables:
        parts.append(f"<h3>{escape(table.title)}</h3><table border='0' summary='x'>")
        parts.append("<tr>" + "".join(f"<th>{escape(h)}</th>" for h in table.columns) + "</tr>")
        for row in table.rows:
            cells = "".join(f"<td class='awrc'>{escape(c) or '&#160;'}</td>" for c in row)
            parts.append(f"<tr>{cells}</tr>")
        parts.append("</table><p />")
    return "\n".join([*parts, "</body></html>"])


def _heads(table: PaperExhibit) -> list[str]:
    """Return the heads in two lines, broken at the column's width."""
    above, below = [], []
    for place, (head, width) in enumerate(zip(table.columns, _WIDTHS, strict=True)):
        words = head.split()
        last = [words.pop()]
        while words and len(" ".join([words[-1], *last])) <= width:
            last.insert(0, words.pop())
        align = str.ljust if place == 0 else str.rjust
        above.append(align(" ".join(words), width))
        below.append(align(" ".join(last), width))
    return [" ".join(above).rstrip(), " ".join(below).rstrip()]


def _line(row: tuple[str, ...]) -> str:
    cells = []
    for place, (cell, width) in enumerate(zip(row, _WIDTHS, strict=True)):
        words = cell[:width]
        is_text = place == 0 or cell[:1].strip(".0123456789") != ""
        cells.append(words.ljust(width) if is_text else words.rjust(width))
    return " ".join(cells).rstrip()


def pasted_report(*tables: PaperExhibit, between: str, head: str = "") -> str:
    """Return tables as a paper or a page gives them up: without columns, empty cells lost or not.

    BETWEEN two cells is a tab, a bar or a blank.
    """
    lines = [*head.splitlines(), ""]
    for table in tables:
        lines += [table.title, between.join(table.columns)]
        lines += [between.join(row).rstrip() for row in table.rows]
        lines.append("")
    return "\n".join(lines)
