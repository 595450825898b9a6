# SPDX-License-Identifier: PostgreSQL
"""The workloads that a scenario can name."""

from typing import Any

from pgflash.lab.bulk.workload import BulkWorkload
from pgflash.lab.micro.workload import MicroWorkload
from pgflash.lab.oltp.workload import OltpWorkload
from pgflash.lab.warehouse.workload import WarehouseWorkload
from pgflash.lab.workload import Workload

_ALL: tuple[Workload[Any], ...] = (
    OltpWorkload(),
    WarehouseWorkload(),
    MicroWorkload(),
    BulkWorkload(),
)

WORKLOADS: dict[str, Workload[Any]] = {one.name: one for one in _ALL}
