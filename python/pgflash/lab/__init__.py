# SPDX-License-Identifier: PostgreSQL
"""The lab: a private PostgreSQL, workloads and emulated devices for experiments on one machine."""
