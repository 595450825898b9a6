# SPDX-License-Identifier: PostgreSQL
"""What a server is doing: one collector for all viewers, and a ring of samples in memory.

Read collector.py first, then ring.py.  fleet.py runs a collector for each of several servers,
watch.py lets a program follow the samples, and tables.py prints one sample.  Nothing is written to
disk, and nothing on the server is changed.
"""
