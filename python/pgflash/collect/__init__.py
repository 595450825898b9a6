# SPDX-License-Identifier: PostgreSQL
"""Snapshots taken from outside: what a stock PostgreSQL shows, and its machine if it is this one.

For servers without the extension, and for standbys, which cannot keep snapshots themselves.  The
section `missing` lists what stock PostgreSQL does not count and what this session may not see, with
the reason.  Nothing is written to the server, and no statistics are reset.
"""

from pgflash.collect.take import collect, system_identifier

__all__ = ["collect", "system_identifier"]
