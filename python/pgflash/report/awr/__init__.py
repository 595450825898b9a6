# SPDX-License-Identifier: PostgreSQL
"""Reports on a period, and comparisons of two, in every form that is available.

html      for people: one file with charts
text      for a terminal or a mail, 80 columns wide unless said otherwise
markdown  for a ticket: findings, and the head of each table
json      for programs, and to be compared later: the whole report
"""

from typing import Literal

from pgflash.model.awr import AwrReport, CompareReport
from pgflash.report.awr.html import render_html
from pgflash.report.awr.markdown import render_markdown
from pgflash.report.awr.stored import report_from_json, report_to_json
from pgflash.report.awr.text import render_text
from pgflash.report.lines import WIDTH

Form = Literal["html", "text", "json", "md"]
FORMS: tuple[Form, ...] = ("html", "text", "json", "md")

__all__ = ["FORMS", "Form", "render", "render_html", "report_from_json", "report_to_json"]


def render(
    report: AwrReport | CompareReport,
    form: Form,
    *,
    zeros: bool = False,
    oracle: bool = False,
    width: int = WIDTH,
) -> str:
    """Return the report in a form: a text of this width.

    ZEROS are rows that name something of which there was nothing, ORACLE are Oracle's names of the
    counters: the page shows both to those who ask for them there, too, and JSON has everything.
    """
    match form:
        case "html":
            return render_html(report, zeros=zeros, oracle=oracle)
        case "text":
            return render_text(report, zeros=zeros, oracle=oracle, width=width)
        case "md":
            return render_markdown(report, zeros=zeros, oracle=oracle)
        case "json":
            return report_to_json(report)
