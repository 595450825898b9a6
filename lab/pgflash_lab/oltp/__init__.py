# SPDX-License-Identifier: PostgreSQL
"""The oltp workload: TPC-C-like, on PostgreSQL, driven by pgbench.

    load(conninfo, parameters)              makes and fills the schema "oltp"
    run(install, conninfo, parameters, workdir)   runs the mix and measures it
    check_consistency(conninfo)             checks the specification's conditions

Schema, contents, transactions, mix and random draws follow TPC-C 5.11.  The differences: keying and
think times are left out unless they are asked for, deliveries are executed at once, and a terminal
stands for all districts of its warehouses.  Results are never called TPC results.
"""

from pgflash_lab.conditions import ConditionResult
from pgflash_lab.oltp.consistency import check_consistency
from pgflash_lab.oltp.driver import run
from pgflash_lab.oltp.loader import load
from pgflash_lab.oltp.model import (
    Access,
    LoadResult,
    Mix,
    OltpParameters,
    OltpResult,
    ValidityFigure,
    Verdict,
)
from pgflash_lab.pgbench import DriverError

__all__ = [
    "Access",
    "ConditionResult",
    "DriverError",
    "LoadResult",
    "Mix",
    "OltpParameters",
    "OltpResult",
    "ValidityFigure",
    "Verdict",
    "check_consistency",
    "load",
    "run",
]
