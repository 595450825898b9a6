# SPDX-License-Identifier: PostgreSQL
"""What a server does now: one collector for all viewers, and a ring of samples in memory.

Read collector.py first, then ring.py; fleet.py has a collector for each of several servers;
watch.py lets a program follow the samples, tables.py shows one to a person.  Nothing is kept on
disk, and nothing on the server is changed.
"""
