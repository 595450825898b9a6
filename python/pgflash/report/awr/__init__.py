# SPDX-License-Identifier: PostgreSQL
"""Reports on a period, and comparisons of two, in every form that they can be had.

html      for people: one file with charts
text      for a terminal or a mail, at most 100 columns wide
markdown  for a ticket: findings, and the head of each table
json      for programs: the whole report, with its format's number
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from pgflash.model.awr import AwrReport, CompareReport
from pgflash.report.awr.html import render_html
from pgflash.report.awr.markdown import render_markdown
from pgflash.report.awr.text import render_text

Form = Literal["html", "text", "json", "md"]
FORMS: tuple[Form, ...] = ("html", "text", "json", "md")

__all__ = ["FORMS", "Form", "render", "render_html"]


def render(report: AwrReport | CompareReport, form: Form) -> str:
    """Return the report in a form."""
    return _RENDERERS[form](report)


def _render_json(report: AwrReport | CompareReport) -> str:
    """Return the whole report as JSON; its key `kind` tells which of the two it is."""
    kind = "report" if isinstance(report, AwrReport) else "compare"
    content = {"kind": kind, **msgspec.to_builtins(report)}
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


_RENDERERS: dict[Form, Callable[[AwrReport | CompareReport], str]] = {
    "html": render_html,
    "text": render_text,
    "json": _render_json,
    "md": render_markdown,
}
