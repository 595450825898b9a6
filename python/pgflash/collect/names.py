# SPDX-License-Identifier: PostgreSQL
"""What people call a relation: without its schema where that is public.

A session of ours finds nothing in public (pgflash/session.py), so the server writes that
schema out, which the sessions of most people need not.
"""


def short_name(written: str) -> str:
    """Return a relation's name as the server wrote it for us, as most sessions write it."""
    return written.removeprefix("public.")
