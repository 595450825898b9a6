# SPDX-License-Identifier: PostgreSQL
"""Where the system's chromium is, for everything that drives a browser."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
