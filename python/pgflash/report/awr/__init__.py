# SPDX-License-Identifier: PostgreSQL
"""Reports on a period, and comparisons of two, in every form that is available.

html      for people: one file with charts
text      for a terminal or a mail, at most 100 columns wide
markdown  for a ticket: findings, and the head of each table
json      for programs, and to be compared later: the whole report
"""

from collections.abc import Callable
from typing import Literal

from pgflash.model.awr import AwrReport, CompareReport
from pgflash.report.awr.html import render_html
from pgflash.report.awr.markdown import render_markdown
from pgflash.report.awr.stored import report_from_json, report_to_json
from pgflash.report.awr.text import render_text

Form = Literal["html", "text", "json", "md"]
FORMS: tuple[Form, ...] = ("html", "text", "json", "md")

__all__ = ["FORMS", "Form", "render", "render_html", "report_from_json", "report_to_json"]


def render(report: AwrReport | CompareReport, form: Form) -> str:
    """Return the report in a form."""
    return _RENDERERS[form](report)


_RENDERERS: dict[Form, Callable[[AwrReport | CompareReport], str]] = {
    "html": render_html,
    "text": render_text,
    "json": report_to_json,
    "md": render_markdown,
}
