# SPDX-License-Identifier: PostgreSQL
"""Prometheus's own check of metrics."""

import shutil
import subprocess

import pytest


def promtool_complaints(text: str) -> str:
    """Return what `promtool check metrics` says of a text; "" if it passes."""
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool: apt-get install prometheus")
    found = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    return "" if found.returncode == 0 else found.stdout + found.stderr or "it failed"
