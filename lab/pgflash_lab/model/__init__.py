# SPDX-License-Identifier: PostgreSQL
"""Plain values: runs of the lab, exhibits, the figures of the papers."""
