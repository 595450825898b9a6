# SPDX-License-Identifier: PostgreSQL
"""promtool says that each alert fires when it should, after the right time, and only then."""

import re
from pathlib import Path
from typing import Any

from definitions.alerts import alerts
from definitions.exporters import MONITORING
from definitions.yaml import yaml_text
from support.promtool import promtool

RULES = MONITORING / "prometheus-rules.yaml"

SERVE, OFFLINE = (
    f'pgflash_cache_mode{{pgflash_cache_mode="{mode}"}}' for mode in ("serve", "offline")
)
HITS, MISSES = "pgflash_cache_hits_total", "pgflash_cache_misses_total"
BYPASSED, IN_USE = (
    f'pgflash_cache_device_state{{cache_file="/nvme/cache",pgflash_cache_device_state="{state}"}}'
    for state in ("bypassed", "in use")
)
BUDGET, EXISTS = (
    f'pgflash_cache_insert_skips_total{{reason="{reason}"}}' for reason in ("budget", "exists")
)

Series = dict[str, str]

SCRAPED = {"instance": "db1:8432", "job": "pgflash"}

#: The labels of an alert beside these and its severity.
OWN_LABELS = {
    "PgflashNotServing": {"pgflash_cache_mode": "serve"},
    "PgflashDeviceBypassed": {
        "cache_file": "/nvme/cache",
        "pgflash_cache_device_state": "bypassed",
    },
    "PgflashBudgetSpent": {"reason": "budget"},
}

#: Of each alert: values minute by minute, and when it must fire and not.  VALUE+STEPxTIMES is
#: promtool's notation.
CASES: list[tuple[str, Series, list[int], list[int]]] = [
    ("PgflashMismatch", {"pgflash_cache_verify_mismatches_total": "0x4 1x9"}, [5, 9], [4]),
    (
        "PgflashNotServing",
        {SERVE: "1x4 0x9 1x9", OFFLINE: "0x4 1x9 0x9", "pgflash_cache_configured": "1x30"},
        [10, 13],
        [4, 9, 15],
    ),
    # Without a cache there is only the accounting.
    (
        "PgflashNotServing",
        {SERVE: "0x30", OFFLINE: "1x30", "pgflash_cache_configured": "0x30"},
        [],
        [0, 10, 30],
    ),
    # It was seen for an hour; a restart of the server, from 1 to 0, is none.
    ("PgflashCorruptSlots", {"pgflash_cache_corrupt_slots_total": "0x4 1x99"}, [5, 63], [4, 66]),
    ("PgflashCorruptSlots", {"pgflash_cache_corrupt_slots_total": "1x4 0x99"}, [], [5, 60]),
    ("PgflashForeignChanges", {"pgflash_cache_foreign_changes_total": "2x9 3x99"}, [10, 60], [9]),
    (
        "PgflashDeviceErrors",
        {
            "pgflash_cache_flash_read_errors_total": "0x9 3x99",
            "pgflash_cache_flash_write_errors_total": "0x99",
        },
        [10, 60],
        [9],
    ),
    (
        "PgflashDeviceErrors",
        {
            "pgflash_cache_flash_read_errors_total": "7x99",
            "pgflash_cache_flash_write_errors_total": "0x9 1x99",
        },
        [10, 60],
        [9],
    ),
    ("PgflashDeviceBypassed", {BYPASSED: "0x4 1x30", IN_USE: "1x4 0x30"}, [15], [4, 14]),
    # Nine minutes are nobody's concern.
    ("PgflashDeviceBypassed", {BYPASSED: "1x8 0x30", IN_USE: "0x8 1x30"}, [], [8, 20]),
    ("PgflashBudgetSpent", {BUDGET: "0+5x60"}, [20, 60], [10]),
    ("PgflashBudgetSpent", {BUDGET: "9x60", EXISTS: "0+5x60"}, [], [20, 60]),
    # 6,000 a minute are 100 a second.
    (
        "PgflashHitRatioCollapsed",
        {HITS: "0+5400x120 648000+600x60", MISSES: "0+600x120 72000+5400x60"},
        [160],
        [60, 120, 130],
    ),
    # The same ratios of ten a minute are chance.
    (
        "PgflashHitRatioCollapsed",
        {HITS: "0+9x120 1080+1x60", MISSES: "0+1x120 120+9x60"},
        [],
        [60, 160],
    ),
    ("PgflashNoAnswer", {"pgflash_up": "1x4 0x9"}, [10], [4, 9]),
]


def test_promtool_accepts_the_rules() -> None:
    assert promtool("check", "rules", RULES) == ""


def test_every_alert_is_tried() -> None:
    assert {name for name, _series, fires, _silent in CASES if fires} == set(alerts())


def test_an_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(yaml_text(told(CASES)))
    assert promtool("test", "rules", path) == ""
    # The negative control: each of these expectations, turned round, is a failure.
    turned = [(name, series, silent, fires) for name, series, fires, silent in CASES]
    path.write_text(yaml_text(told(turned)))
    complaints = re.findall(r"alertname: ?(\w+), ?time: ?(\w+)", promtool("test", "rules", path))
    assert sorted(complaints) == sorted(
        (name, duration(minute))
        for name, _series, fires, silent in CASES
        for minute in {*fires, *silent}
    )


def duration(minute: int) -> str:
    """Return a time as Prometheus writes it."""
    hours, minutes = divmod(minute, 60)
    return "0s" if not minute else f"{hours}h" * bool(hours) + f"{minutes}m" * bool(minutes)


def told(cases: list[tuple[str, Series, list[int], list[int]]]) -> dict[str, Any]:
    """Return cases as promtool reads them."""
    return {
        "rule_files": [str(RULES)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": labelled(one), "values": values} for one, values in series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": f"{minute}m",
                        "alertname": name,
                        "exp_alerts": [expected(name)] if minute in fires else [],
                    }
                    for minute in sorted({*fires, *silent})
                ],
            }
            for name, series, fires, silent in cases
        ],
    }


def labelled(series: str) -> str:
    """Return a series with the labels of a scrape."""
    labels = ",".join(f'{name}="{value}"' for name, value in SCRAPED.items())
    return series.replace("{", f"{{{labels},") if "{" in series else f"{series}{{{labels}}}"


def expected(name: str) -> dict[str, Any]:
    """Return an alert as promtool is told to expect it."""
    facts = alerts()[name]
    labels = {**SCRAPED, **OWN_LABELS.get(name, {})}
    summary = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], facts["summary"])
    return {
        "exp_labels": {"severity": facts["severity"], **labels},
        "exp_annotations": {
            "summary": summary,
            "description": facts["means"],
            "runbook": facts["todo"],
            "guide": f"docs/guide/monitoring.md#{name.lower()}",
        },
    }
