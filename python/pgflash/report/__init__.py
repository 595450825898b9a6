# SPDX-License-Identifier: PostgreSQL
"""Pages made from model objects.  Pure: a run in, one self-contained HTML file out."""

from pgflash.report.page import render_page
from pgflash.report.result import result

__all__ = ["render_page", "result"]
