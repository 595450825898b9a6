# SPDX-License-Identifier: PostgreSQL
"""The load workload: a bulk load whose WAL is archived, and scans of the loaded data.

A batch is one transaction that copies rows into two tables: "sale", which is indexed and so the hot
one, and "audit", which only grows.  PostgreSQL itself never waits for its archiver; a bulk load
must, or the WAL fills its device.  So no batch begins while more than a given number of segments
wait to be archived, and that wait is part of the load's duration.
"""
