# SPDX-License-Identifier: PostgreSQL
"""The warehouse workload: TPC-H-like, on PostgreSQL.

    load(conninfo, parameters)        makes and fills the schema "warehouse"
    run(conninfo, parameters)         runs queries and refresh functions and measures them
    check_consistency(conninfo)       checks what the specification says of the contents

Schema, contents, queries, orders of streams and refresh functions follow TPC-H 3.0.1; tpchgen-cli
writes the contents.  The differences: joins in queries name their conditions, the rows of refresh
functions are derived from loaded ones, and the other requirements of an audit are not met.  Results
are never called TPC results.
"""

from pgflash_lab.conditions import ConditionResult
from pgflash_lab.warehouse.consistency import check_consistency
from pgflash_lab.warehouse.driver import DriverError, RunObserver, run
from pgflash_lab.warehouse.loader import load
from pgflash_lab.warehouse.model import (
    LoadResult,
    StepResult,
    Use,
    WarehouseParameters,
    WarehouseResult,
    parse_queries,
)

__all__ = [
    "ConditionResult",
    "DriverError",
    "LoadResult",
    "RunObserver",
    "StepResult",
    "Use",
    "WarehouseParameters",
    "WarehouseResult",
    "check_consistency",
    "load",
    "parse_queries",
    "run",
]
