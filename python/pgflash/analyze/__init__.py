# SPDX-License-Identifier: PostgreSQL
"""Turn snapshots into a report: periods, DB time and its parts, tables, findings, comparison.

    period = make_period(store, begin_id, end_id)
    report = make_report(period)
    comparison = compare(report_of_one_period, report_of_another)

All of it is arithmetic: sections in, model objects out.  It reads only what a store provides, and
uses no clock.  The modules in their order:

    sections        subtract and add up
    period          intervals between snapshots; refuses restarts
    choice          which period a person means
    figures         the same figures from PostgreSQL 15 to 19
    samples         samples converted to seconds
    dbtime, parts, cpu     the parts of DB time, and the source of each
    events, locks, load, io, cache, segments, sql, host, timeline, changes       the tables
    rules*, findings                                                       the sentences
    consistency, possible                                                  what cannot be
    awr, compare    everything together; two of it side by side
"""

from pgflash.analyze.awr import make_report
from pgflash.analyze.choice import choose_around, choose_period, server_zone
from pgflash.analyze.compare import compare
from pgflash.analyze.period import Period, PeriodError, make_period

__all__ = [
    "Period",
    "PeriodError",
    "choose_around",
    "choose_period",
    "compare",
    "make_period",
    "make_report",
    "server_zone",
]
