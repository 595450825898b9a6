# SPDX-License-Identifier: PostgreSQL
"""What a report holds is documented: tables, units, sources, marks, keys of its JSON."""

import re
from pathlib import Path

from pgflash.analyze import make_report
from pgflash.model.awr import RowMark, Severity, Source, Unit
from pgflash.report.awr import FORMS
from support.busy import busy_period

REPOSITORY = Path(__file__).resolve().parents[2]
REFERENCE = (REPOSITORY / "docs" / "reference" / "report.md").read_text()
GUIDE = (REPOSITORY / "docs" / "guide" / "report.md").read_text()
NAMED = set(re.findall(r"`([^`\n]+)`", REFERENCE))


def test_every_table_is_documented_and_no_other() -> None:
    made = {one.id for one in make_report(busy_period()).tables}
    rows = re.findall(r"^\| (`[^|]+) \|", REFERENCE, re.MULTILINE)
    assert {one for row in rows for one in re.findall(r"`([^`]+)`", row)} == made


def test_every_unit_source_severity_and_mark_is_documented() -> None:
    words = {str(one) for kind in (Unit, Source, Severity, RowMark) for one in kind if str(one)}
    assert words - NAMED == set()


def test_every_form_is_documented() -> None:
    assert {*FORMS} - set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)) == set()


def test_the_example_is_a_report_of_today_with_every_table() -> None:
    page = (REPOSITORY / "docs" / "examples" / "report.html").read_text()
    made = {one.id for one in make_report(busy_period()).tables}
    articles = dict(re.findall(r'<article id="([^"]+)".*?>(.*?)</article>', page, re.DOTALL))
    assert set(articles) == made
    # The report covers a flash cache, samples and statements.
    for table in ("top-events", "flash-cache", "aas-over-time", "sql-elapsed", "read-latency"):
        assert "<table" in articles[table]
    assert len(page.encode()) < 2**20
    assert "make example-report" in GUIDE
