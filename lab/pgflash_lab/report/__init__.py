# SPDX-License-Identifier: PostgreSQL
"""Pages made from a run.  Pure: a run in, one self-contained HTML file out."""

from pgflash_lab.report.page import render_page
from pgflash_lab.report.result import result

__all__ = ["render_page", "result"]
