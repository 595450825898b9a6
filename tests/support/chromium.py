# SPDX-License-Identifier: PostgreSQL
"""Where the system's chromium is, which all that drives a browser drives."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
