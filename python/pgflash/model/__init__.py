# SPDX-License-Identifier: PostgreSQL
"""Knowledge as plain values: snapshots, waits, devices, advice.

Everything here is frozen and pure: no file, no clock, no database.  A report made
from these objects can be made from a stored file, and tested from four numbers.
"""
