# SPDX-License-Identifier: PostgreSQL
"""Snapshots taken from outside: what a stock PostgreSQL has, and the machine if it is ours.

For servers without the extension, and for standbys, which cannot keep snapshots
themselves.  What stock PostgreSQL does not count, and what this session may not see, is
listed in the section `missing` with the reason.  Nothing is written to the server, and
nobody's statistics are reset.
"""

from pgflash.collect.take import collect, system_identifier

__all__ = ["collect", "system_identifier"]
