# SPDX-License-Identifier: PostgreSQL
"""Prometheus's own checks of metrics and rules."""

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool_complaints(text: str) -> str:
    """Return what `promtool check metrics` says of a text; "" if it passes."""
    return promtool("check", "metrics", text=text)


def promtool(*words: str | Path, text: str = "") -> str:
    """Run promtool, and return what it complains about; "" if nothing."""
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool: apt-get install prometheus")
    found = subprocess.run(
        ["promtool", *words], input=text, capture_output=True, text=True, check=False
    )
    return "" if found.returncode == 0 else found.stdout + found.stderr or "it failed"
