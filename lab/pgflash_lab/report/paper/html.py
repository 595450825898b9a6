# SPDX-License-Identifier: PostgreSQL
"""A paper's page as one HTML file that opens offline.

The results come first, then all exhibits with their verdicts, then each exhibit: what agrees, a
chart, the paper's table beside ours.  The page loads nothing, runs no script, can be printed, and
can be used with the keyboard alone; whatever it shows in colour, it also says in words.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pgflash.model.awr import ReportTable
from pgflash.report.drawing import Figure, figures_of, patterns
from pgflash.report.environment import environment
from pgflash.report.printed import PrintedTable, print_table
from pgflash.report.shown import ROWS_MAX
from pgflash_lab.model.exhibit import Exhibit, PaperPage

#: A table of ours with more rows than this is folded.
_FOLD_ROWS = 16
#: Wider tables are placed one below the other: half a page has room for about this many characters.
_BESIDE_MAX = 80
#: Words are wrapped beyond this width, and columns are this far apart.
_WORDS, _GAP = 18, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """An exhibit on the page."""

    exhibit: Exhibit
    figures: tuple[Figure, ...]
    paper: PrintedTable | None
    ours: PrintedTable | None

    @property
    def is_wide(self) -> bool:
        """Tell whether a table is too wide to be placed beside the other."""
        return any(one and _characters(one) > _BESIDE_MAX for one in (self.paper, self.ours))


def render_paper_html(page: PaperPage, *, links: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page; links (text, relative address) lead to pages that belong to it."""
    shown = [_shown(exhibit) for exhibit in page.exhibits]
    text: str = (
        environment("pgflash_lab.report")
        .get_template("paper.html.j2")
        .render(
            page=page,
            exhibits=shown,
            predictions=_printed("predictions", page.predictions),
            patterns=patterns(figure for one in shown for figure in one.figures),
            links=links,
            fold_rows=_FOLD_ROWS,
        )
    )
    return text


def _shown(exhibit: Exhibit) -> _Shown:
    return _Shown(
        exhibit=exhibit,
        figures=figures_of(exhibit.charts, about=f"{exhibit.label}, {exhibit.title}"),
        paper=_printed(f"{exhibit.id}-paper", exhibit.paper),
        ours=_printed(f"{exhibit.id}-ours", exhibit.ours),
    )


def _characters(table: PrintedTable) -> int:
    """Return the approximate width of a table in characters, with its words wrapped."""
    widths = []
    for place, column in enumerate(table.columns):
        cells = max((len(row.cells[place].signed) for row in table.rows), default=0)
        head = max(len(word) for word in [*column.title.split(), column.unit, ""])
        widths.append(max(min(cells, _WORDS) if column.words else cells, head) + _GAP)
    return sum(widths)


def _printed(table_id: str, table: ReportTable | None) -> PrintedTable | None:
    if table is None:
        return None
    return print_table(dataclasses.replace(table, id=table_id), rows_max=ROWS_MAX)
