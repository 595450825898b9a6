# SPDX-License-Identifier: PostgreSQL
"""The workloads that a scenario can name."""

from typing import Any

from pgflash.lab.oltp.workload import OltpWorkload
from pgflash.lab.workload import Workload

WORKLOADS: dict[str, Workload[Any]] = {one.name: one for one in (OltpWorkload(),)}
