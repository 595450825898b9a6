# SPDX-License-Identifier: PostgreSQL
"""The dashboard is complete: every metric is there, every panel fits, every variable is used."""

import json
import re
from itertools import combinations
from typing import Any

from definitions.dashboard import DASHBOARD, SELECT
from definitions.metric_queries import flat_queries

BOARD = json.loads(DASHBOARD.read_text())
PANELS = [one for one in BOARD["panels"] if one["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]

SAMPLES = {value.sample for query in flat_queries() for value in query.values}


def test_numbers_and_titles_stand_once() -> None:
    for name in ("id", "title"):
        found = [one[name] for one in BOARD["panels"]]
        assert len(found) == len(set(found))
    for panel in PANELS:
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)) > 0
        assert panel["description"].endswith(".")


def test_panels_lie_beside_one_another() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        return {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }

    for one, other in combinations(BOARD["panels"], 2):
        assert not cells(one) & cells(other), (one["title"], other["title"])


def test_every_variable_is_there_and_used() -> None:
    declared = [one["name"] for one in BOARD["templating"]["list"]]
    assert declared == ["datasource", "job", "instance"]
    used = set(re.findall(r"\$\{?([a-z_]+)", DASHBOARD.read_text()))
    # Grafana's own begin with two underscores.
    assert {one for one in used if not one.startswith("__")} == set(declared)
    for panel in PANELS:
        for source in (panel["datasource"], *(one["datasource"] for one in panel["targets"])):
            assert source == {"type": "prometheus", "uid": "${datasource}"}


def test_every_expression_is_of_the_chosen_servers() -> None:
    for expr in EXPRESSIONS:
        named = re.findall(r"pgflash_\w+", re.sub(r'"[^"]*"', "", expr))
        selected = re.findall(rf"(pgflash_\w+){{{re.escape(SELECT)}", expr)
        assert selected == [one for one in named if one != "pgflash_cache_mode"] or set(named) == {
            "pgflash_cache_mode"
        }
        assert set(selected) <= SAMPLES


def test_every_metric_that_exporters_have_is_on_it() -> None:
    shown = set(re.findall(r"pgflash_\w+", " ".join(EXPRESSIONS)))
    left_out = SAMPLES - shown
    assert left_out == {
        # Bytes and times tell the same as calls; the sums of a histogram are those of requests.
        "pgflash_request_bytes_total", "pgflash_cache_flash_reads_total",
        "pgflash_cache_flash_read_bytes_total", "pgflash_cache_flash_writes_total",
        "pgflash_read_latency_seconds_sum", "pgflash_read_latency_seconds_count",
        "pgflash_wal_sync_latency_seconds_sum", "pgflash_wal_sync_latency_seconds_count",
        "pgflash_wal_sync_latency_seconds_bucket",
        # What the variables list, and the alerts ask.
        "pgflash_server_info", "pgflash_cache_configured",
    }  # fmt: skip
