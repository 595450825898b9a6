# SPDX-License-Identifier: PostgreSQL
"""The workloads that a scenario can name."""

from typing import Any

from pgflash_lab.bulk.workload import BulkWorkload
from pgflash_lab.failover.workload import FailoverWorkload
from pgflash_lab.micro.workload import MicroWorkload
from pgflash_lab.oltp.workload import OltpWorkload
from pgflash_lab.script.workload import PgbenchWorkload
from pgflash_lab.warehouse.workload import WarehouseWorkload
from pgflash_lab.workload import Workload

_ALL: tuple[Workload[Any], ...] = (
    OltpWorkload(),
    WarehouseWorkload(),
    MicroWorkload(),
    BulkWorkload(),
    PgbenchWorkload(),
)

#: The failover workload has the oltp one's name, schema and loaded databases.
WORKLOADS: dict[str, Workload[Any]] = {one.name: one for one in _ALL} | {
    "failover": FailoverWorkload()
}
