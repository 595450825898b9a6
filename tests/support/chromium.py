# SPDX-License-Identifier: PostgreSQL
"""Where the system's chromium is, which all that drives a browser drives."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
