# SPDX-License-Identifier: PostgreSQL
"""Reports in files: one whose tables do not fit is refused before anything reads them."""

import json
from dataclasses import replace

import pytest

from pgflash.report.awr import report_from_json, report_to_json
from pgflash.report.awr.stored import StoredReportError
from support.few import few


def test_a_report_whose_tables_fit_is_read() -> None:
    assert report_from_json(report_to_json(few()).encode(), name="r.json") == few()


@pytest.mark.parametrize("missing", ["load-profile", "wait-classes", "top-events"])
def test_a_report_without_a_table_that_every_report_has_is_refused(missing: str) -> None:
    whole = few()
    cut = replace(whole, tables=tuple(one for one in whole.tables if one.id != missing))
    with pytest.raises(StoredReportError, match=f"it has no table {missing}"):
        report_from_json(report_to_json(cut).encode(), name="r.json")


@pytest.mark.parametrize("cells", [[], ["transactions"], ["transactions", 1, 2]])
def test_a_row_that_does_not_fit_its_columns_is_refused(cells: list[object]) -> None:
    content = json.loads(report_to_json(few()))
    (profile,) = [one for one in content["tables"] if one["id"] == "load-profile"]
    profile["rows"][1]["cells"] = cells
    said = f"row 2 of load-profile has {len(cells)} cells for 2 columns"
    with pytest.raises(StoredReportError, match=said):
        report_from_json(json.dumps(content).encode(), name="r.json")
