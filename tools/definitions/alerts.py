# SPDX-License-Identifier: PostgreSQL
"""Prometheus's alert rules, and the runbook of the guide."""

import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from definitions import DEFINITIONS, ROOT
from definitions.exporters import MONITORING, with_head
from definitions.metrics import metrics
from definitions.parts import with_parts

GUIDE = ROOT / "docs/guide/monitoring.md"

_INSTANCE = "{{ $labels.instance }}"
#: Where pgflash serve watches several servers.
_MEMBER = "{{ with $labels.member }} ({{ . }}){{ end }}"


def generated() -> dict[Path, str]:
    """Return the rules for Prometheus and for its operator, and the guide with its runbook."""
    groups = {"groups": [{"name": "pgflash", "rules": [_rule(*one) for one in alerts().items()]}]}
    operator = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "pgflash"},
        "spec": groups,
    }
    return {
        MONITORING / "prometheus-rules.yaml": with_head(
            "Alerts about pgflash for Prometheus: rule_files.", groups
        ),
        MONITORING / "prometheus-operator-rules.yaml": with_head(
            "Alerts about pgflash for the Prometheus operator of Kubernetes.", operator
        ),
        GUIDE: with_parts(GUIDE, {"runbook": "".join(_runbook()), "without": _without()}),
    }


@cache
def alerts() -> Mapping[str, Mapping[str, str]]:
    """Return what is declared of each alert, by its name."""
    return tomllib.loads((DEFINITIONS / "alerts.toml").read_text())


def _rule(name: str, facts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": facts["expr"].strip("\n"),
        "for": facts["for"],
        "labels": {"severity": facts["severity"]},
        "annotations": {
            "summary": facts["summary"].replace(_INSTANCE, f"{_INSTANCE}{_MEMBER}"),
            "description": facts["means"],
            "runbook": facts["todo"],
            "guide": f"docs/guide/monitoring.md#{name.lower()}",
        },
    }


def _without() -> str:
    """Return a table of the metrics that other exporters do not have."""
    reasons: dict[str, list[str]] = {}
    for name, facts in metrics().items():
        if "without" in facts:
            reasons.setdefault(facts["without"], []).append(f"`{name}`")
    rows = "".join(f"| {', '.join(names)} | {why} |\n" for why, names in reasons.items())
    return f"\n| only `pgflash serve` has | because |\n|---|---|\n{rows}\n"


def _runbook() -> Iterator[str]:
    yield "\n| alert | severity | it fires if |\n|---|---|---|\n"
    for name, facts in alerts().items():
        expr = " ".join(facts["expr"].split()).replace("|", r"\|")
        held = "" if facts["for"] == "0m" else f", for {facts['for'].removesuffix('m')} minutes"
        yield f"| [{name}](#{name.lower()}) | {facts['severity']} | `{expr}`{held} |\n"
    yield "\n"
    for name, facts in alerts().items():
        page = facts["more"].partition("#")[0].removesuffix(".md").replace("-", " ")
        yield f"### {name}\n\n"
        yield _item(f"**It means:** {facts['means']}")
        yield _item(f"**What to do:** {facts['todo']}")
        yield _item(f"**More:** [{page}]({facts['more']})")
        yield "\n"


def _item(text: str) -> str:
    lines = textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)
    return "- " + "\n  ".join(lines) + "\n"
