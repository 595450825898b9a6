# SPDX-License-Identifier: PostgreSQL
"""The tables that an approach moves to flash, if its scenario leaves that to the advice.

The advice reads what the server itself counted in the attempt that the approach is compared with,
so that attempt has to come first, and needs the extension.
"""

import dataclasses
from pathlib import Path

from pgflash.advise.hot import hot_tables
from pgflash.advise.media import FLASH
from pgflash.advise.work import work_of_report
from pgflash.model.awr import AwrReport
from pgflash.report.awr.stored import read_period
from pgflash_lab import store
from pgflash_lab.model.run import Approach, Run
from pgflash_lab.model.summary import base_of
from pgflash_lab.workload import MeasureError

#: Replaces the tables' names.
ADVISED = ("auto",)


def with_advised_objects(approach: Approach, run: Run, *, folder: Path, schema: str) -> Approach:
    """Return the approach with the names of its tables; FOLDER is the run's."""
    if approach.objects != ADVISED:
        return approach
    base = base_of(approach)
    found = [place for place, one in enumerate(run.attempts) if one.approach == base]
    path = store.period_file(folder, store.attempt_name(found[0], base)) if found else None
    if path is None or not path.is_file():
        raise MeasureError(
            f'which tables approach "{approach.name}" moves is not known: there is no report of '
            f'the approach "{base}"',
            hint="It has to be measured first, on a server with the extension; or name the tables.",
        )
    ranked = _ranked(read_period(path))
    own = f"{schema}."
    names = tuple(name.removeprefix(own) for name in ranked if name.startswith(own))
    if not names:
        raise MeasureError(f'no table of the workload costs read time in approach "{base}"')
    return dataclasses.replace(approach, objects=names)


def _ranked(report: AwrReport) -> tuple[str, ...]:
    """Return the tables that belong on flash, with their indexes, the best first."""
    return hot_tables(work_of_report(report), flash=FLASH)
