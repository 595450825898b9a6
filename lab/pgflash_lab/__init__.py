# SPDX-License-Identifier: PostgreSQL
"""The lab: a private PostgreSQL, workloads and emulated devices for experiments on one machine.

A distribution of its own: it knows pgflash, which finds its commands and pages by entry points.
"""
