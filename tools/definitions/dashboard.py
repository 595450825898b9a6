# SPDX-License-Identifier: PostgreSQL
"""The Grafana dashboard.

Its variables are the data source, the job and the instance.  All expressions have the same
selector, so that one dashboard shows one server or all of them.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from definitions import DEFINITIONS
from definitions.exporters import MONITORING

DASHBOARD = MONITORING / "grafana-dashboard.json"

SELECT = 'job=~"$job",instance=~"$instance"'
RATE = "$__rate_interval"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: A metric that every server with pgflash has.
_PRESENT = "pgflash_cache_configured"
_HEIGHTS = {"stat": 4, "time": 8, "state": 8}
_TYPES = {"stat": "stat", "time": "timeseries", "state": "state-timeline"}


def generated() -> dict[Path, str]:
    """Return the dashboard."""
    return {DASHBOARD: json.dumps(_dashboard(), indent=1, ensure_ascii=False) + "\n"}


def _dashboard() -> dict[str, Any]:
    return {
        "uid": "pgflash",
        "title": "pgflash",
        "description": "The flash cache of PostgreSQL. Generated from definitions/dashboard.toml.",
        "tags": ["postgresql", "pgflash"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": list(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    return [
        source,
        _values_of("job", "Job", f"label_values({_PRESENT}, job)"),
        _values_of("instance", "Instance", f'label_values({_PRESENT}{{job=~"$job"}}, instance)'),
    ]


def _values_of(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    number = y = 0
    for row in tomllib.loads((DEFINITIONS / "dashboard.toml").read_text())["row"]:
        number += 1
        place = {"x": 0, "y": y, "w": 24, "h": 1}
        yield {"id": number, "type": "row", "title": row["title"], "gridPos": place, "panels": []}
        y, x, lowest = y + 1, 0, 0
        for panel in row["panel"]:
            number += 1
            if x + panel["width"] > 24:
                y, x = lowest, 0
            height = _HEIGHTS[panel["kind"]]
            place = {"x": x, "y": y, "w": panel["width"], "h": height}
            yield _panel(number, panel, place)
            x, lowest = x + panel["width"], max(lowest, y + height)
        y = lowest


def _panel(number: int, panel: Mapping[str, Any], place: Mapping[str, int]) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": " ".join(line["expr"].split()).replace("SELECT", SELECT).replace("RATE", RATE),
            "legendFormat": f"{{{{instance}}}} {{{{member}}}} {line['legend']}".strip(),
        }
        for index, line in enumerate(panel["lines"])
    ]
    return {
        "id": number,
        "type": _TYPES[panel["kind"]],
        "title": panel["title"],
        "description": panel["about"],
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel["unit"]}, "overrides": []},
        "options": {"textMode": "value_and_name"} if panel["kind"] == "stat" else {},
        "targets": targets,
    }
