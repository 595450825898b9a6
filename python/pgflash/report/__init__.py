# SPDX-License-Identifier: PostgreSQL
"""Pages and texts made from model objects.  Pure: a report in, one self-contained file out."""
