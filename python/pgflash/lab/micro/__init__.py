# SPDX-License-Identifier: PostgreSQL
"""The micro workload: one kind of access at a time, on two devices side by side.

The two tables are alike to the last row.  "on_array" stays where the data is, "on_flash" is
moved by the lab (objects = ["on_flash"]).  Half of the clients work on one and half on the
other, and each client waits for its own device only, so the two can be compared: the reads
of one do not queue behind the other's.  What they share is the WAL, as in paper 004.
"""
