# SPDX-License-Identifier: PostgreSQL
"""The usual name of a relation: without its schema if that is public.

Our sessions do not have public in their search_path (pgflash/session.py), so the server writes that
schema out, which most people's sessions do not need.
"""


def short_name(written: str) -> str:
    """Convert a relation's name from our sessions' form to that of most sessions."""
    return written.removeprefix("public.")
