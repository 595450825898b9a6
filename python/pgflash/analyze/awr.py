# SPDX-License-Identifier: PostgreSQL
"""The report on a period: all its tables, and their meaning in sentences."""

import pgflash
from pgflash.analyze.background import checkpoints_table, replication, replication_slots, vacuum
from pgflash.analyze.cache import flash_cache
from pgflash.analyze.cache_advice import flash_cache_advice
from pgflash.analyze.changes import missing_table, settings, settings_changed
from pgflash.analyze.events import db_time_table, top_events, wait_classes
from pgflash.analyze.findings import find
from pgflash.analyze.grid import ROWS_MAX, RowsMax
from pgflash.analyze.host import host_iostat, host_vmstat
from pgflash.analyze.io import io_functions, io_tablespaces, read_latency, wal_table
from pgflash.analyze.load import load_profile, summary
from pgflash.analyze.locks import locks, long_locks, segments_row_locks
from pgflash.analyze.parts import db_time
from pgflash.analyze.period import Period
from pgflash.analyze.possible import possible
from pgflash.analyze.sections import number
from pgflash.analyze.segments import (
    segments_cached,
    segments_logical_reads,
    segments_read_time,
    segments_reads,
    segments_writes,
)
from pgflash.analyze.sql import (
    sql_cpu,
    sql_disk,
    sql_elapsed,
    sql_executions,
    sql_flash,
    sql_gets,
    sql_reads,
    sql_temp,
    sql_text,
    sql_wal,
)
from pgflash.analyze.timeline import (
    cpu_over_time,
    iso,
    latency_over_time,
    sessions_over_time,
    steps,
    throughput_over_time,
)
from pgflash.model.awr import AwrReport, PeriodHead
from pgflash.model.snapshot import parse_time


def make_report(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> AwrReport:
    """Return the whole report on a period.

    Rankings have ROWS_MAX rows, or all of them with None, which a comparison needs.
    """
    found, points = db_time(period), steps(period)
    statements = (
        sql_elapsed(period, found, rows_max=rows_max),
        sql_cpu(period, found, rows_max=rows_max),
        sql_reads(period, rows_max=rows_max),
        sql_disk(period, rows_max=rows_max),
        sql_flash(period, rows_max=rows_max),
        sql_gets(period, rows_max=rows_max),
        sql_executions(period, rows_max=rows_max),
        sql_wal(period, rows_max=rows_max),
        sql_temp(period, rows_max=rows_max),
    )
    tables = (
        summary(period, found),
        db_time_table(found),
        load_profile(period, found),
        top_events(found.composition, rows_max=rows_max),
        wait_classes(found.composition),
        read_latency(period),
        io_tablespaces(period),
        io_functions(period),
        wal_table(period),
        checkpoints_table(period),
        vacuum(period, rows_max=rows_max),
        replication(period),
        replication_slots(period),
        flash_cache(period),
        flash_cache_advice(period, found.composition.db_time_s),
        segments_reads(period, rows_max=rows_max),
        segments_read_time(period, rows_max=rows_max),
        segments_writes(period, rows_max=rows_max),
        segments_logical_reads(period, rows_max=rows_max),
        segments_row_locks(period, rows_max=rows_max),
        locks(period, rows_max=rows_max),
        long_locks(period),
        segments_cached(period, rows_max=rows_max),
        *statements,
        sql_text(period, statements),
        host_vmstat(period),
        host_iostat(period),
        cpu_over_time(period, points),
        sessions_over_time(period, found.samples),
        throughput_over_time(period, points),
        latency_over_time(period, points),
        settings_changed(period),
        settings(period),
        missing_table(period),
    )
    return AwrReport(
        pgflash_version=pgflash.__version__,
        head=period_head(period),
        findings=find(period, found, tables),
        tables=tuple(possible(table)[0] for table in tables),
    )


def period_head(period: Period) -> PeriodHead:
    """Return the period and its server."""
    server = next(iter(period.gauge("server")), {})
    started_at, zone = server.get("started_at"), period.zone
    return PeriodHead(
        begin_id=period.begin.id,
        end_id=period.end.id,
        begin_at=iso(period.begin.taken_at, zone),
        end_at=iso(period.end.taken_at, zone),
        time_zone=str(zone),
        asked=period.asked,
        elapsed_s=period.elapsed_s,
        snapshots=len(period.intervals) + 1,
        server_version=str(server.get("version") or _version(period.end.server_version_num)),
        server_version_num=period.end.server_version_num,
        extension_version=period.end.extension_version,
        server_started_at=iso(
            parse_time(str(started_at)) if started_at else period.end.started_at, zone
        ),
        cores=int(number(server.get("cores"))) or None,
        memory_bytes=int(number(server.get("memory_bytes"))) or None,
    )


def _version(number_: int) -> str:
    return f"{number_ // 10_000}.{number_ % 10_000}"
