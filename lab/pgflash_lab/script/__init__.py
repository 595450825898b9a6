# SPDX-License-Identifier: PostgreSQL
"""The pgbench workload: a user's own pgbench scripts, or those that pgbench has itself.

Its database has pgbench's tables, and whatever a user's setup file makes, in the schema "pgbench",
which is first in the search path.
"""
