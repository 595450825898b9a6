# SPDX-License-Identifier: PostgreSQL
"""The failover workload: the oltp load on three members under Patroni, whose leader is killed.

It is measured by attempt.py in place of the lab's attempt for one server: fleet.py makes the
members, warming.py keeps a standby warm, driver.py runs the load through the failover, ledger.py
compares what was acknowledged with what is there, recovery.py judges what the clients saw.
"""
