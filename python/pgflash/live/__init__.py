# SPDX-License-Identifier: PostgreSQL
"""What a server does now: one collector for all who watch, a ring of samples in memory.

Read collector.py first, then ring.py; watch.py is how a program follows the samples, tables.py
how a person reads one.  Nothing is kept on disk, and nothing of the server is changed.
"""
