# SPDX-License-Identifier: PostgreSQL
"""The micro workload: one kind of access at a time, on two devices side by side.

The two tables are identical in every row.  "on_array" stays where the data is; the lab moves
"on_flash" (objects = ["on_flash"]).  Half of the clients work on one table and half on the other,
and each client waits only for its own device, so the two can be compared: the reads of one do not
queue behind those of the other.  What they share is the WAL, as in paper 004.
"""
