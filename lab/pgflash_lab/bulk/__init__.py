# SPDX-License-Identifier: PostgreSQL
"""The load workload: a bulk load whose WAL is archived, and scans of the loaded data.

The rows are TPC-H's.  A batch is one transaction that copies orders and their lines into two
tables: "lineitem", which is indexed and so the hot one, and "orders", which only grows.  PostgreSQL
itself never waits for its archiver; a bulk load must, or the WAL fills its device.  So no batch
begins while more than a given number of segments wait to be archived, and that wait is part of the
load's duration.
"""
