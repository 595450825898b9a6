# SPDX-License-Identifier: PostgreSQL
"""What changed within the period, and what is missing: settings, absent sections."""

from collections.abc import Mapping

from pgflash.analyze.grid import missing, text
from pgflash.analyze.period import Period
from pgflash.analyze.sections import Reset
from pgflash.model.awr import ReportTable, Row
from pgflash.model.snapshot import MISSING, Value
from pgflash.model.words import duration

#: What the report lacks without a section; sections not listed here are named as they are.
_LACKS = {
    "io": "exact waits for I/O, by source",
    "io_histogram": "histograms of latency",
    "io_tablespaces": "I/O by tablespace",
    "wal": "exact times of the WAL's writes and syncs",
    "cache": "the flash cache",
    "cache_devices": "the devices of the flash cache",
    "cache_relations": "what the flash cache holds",
    "advice": "advice on the flash cache's size",
    "samples": "waits other than I/O, sessions over time",
    "sample_looks": "waits other than I/O, sessions over time",
    "sampler": "the sampler's own figures",
    "backend_cpu": "DB CPU",
    "statements": "SQL",
    "statement_reads": "SQL by reads from flash and disk",
    "relations": "segments",
    "relation_stats": "segments by logical reads, vacuum",
    "dead_rows": "vacuum",
    "lock_waits": "locks by object",
    "replication": "replication",
    "replication_slots": "replication slots",
    "standby": "",
    "stat_io": "I/O by process as PostgreSQL counts it",
    "stat_lock": "waits for locks longer than deadlock_timeout",
    "stat_recovery": "",
    "checkpointer": "",
    "host_cpu": "the machine's processors",
    "host_memory": "the machine's memory",
    "host_disks": "the machine's devices",
    "host_state": "the machine's load",
    "database": "transactions and DB time",
    "stat_wal": "the WAL",
}


def settings(period: Period) -> ReportTable:
    """Return the settings that were not the defaults at the end."""
    columns = (
        text("name", "Setting"),
        text("setting", "Value"),
        text("unit", "Unit"),
        text("origin", "From"),
    )
    title = "Settings"
    records = [record for record in period.gauge("settings") if _was_set(record)]
    if not records:
        reason = period.missing_reason("settings") or "The snapshots have no section settings."
        return missing("settings", title, columns, reason)
    rows = sorted(
        tuple(str(record.get(name) or "") for name in ("name", "setting", "unit", "source"))
        for record in records
    )
    return ReportTable(
        id="settings",
        title=title,
        columns=columns,
        rows=tuple(Row(cells=cells) for cells in rows),
        key=("name",),
        note="As of the end of the period: settings that are not defaults, and those of pgflash.",
    )


def _was_set(record: Mapping[str, Value]) -> bool:
    """Tell whether somebody chose a setting for the server.

    Neither computed by the server itself, nor set by the session that took the snapshot.
    """
    if str(record.get("name")).startswith("pgflash."):
        return True
    return record.get("source") not in ("default", "override", "session", "client")


def settings_changed(period: Period) -> ReportTable:
    """Return the settings that differ between the ends."""
    columns = (
        text("name", "Setting"),
        text("before", "At the beginning"),
        text("after", "At the end"),
        text("unit", "Unit"),
        text("origin", "From"),
    )
    title = "Settings that changed"
    ends = [
        {
            str(record.get("name")): record
            for record in period.gauge("settings", at_begin=begin)
            if _was_set(record)
        }
        for begin in (True, False)
    ]
    before, after = ends
    if not (period.gauge("settings") and period.gauge("settings", at_begin=True)):
        reason = period.missing_reason("settings") or "The snapshots have no section settings."
        return missing("settings-changed", title, columns, reason)
    rows = []
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was is not None and now is not None and was.get("setting") == now.get("setting"):
            continue
        one = now if now is not None else was
        assert one is not None
        rows.append(
            Row(
                cells=(
                    name,
                    str(was.get("setting")) if was is not None else "(default)",
                    str(now.get("setting")) if now is not None else "(default)",
                    str(one.get("unit") or ""),
                    str(one.get("source") or ""),
                )
            )
        )
    if not rows:
        return missing("settings-changed", title, columns, "No setting changed.")
    return ReportTable(
        id="settings-changed", title=title, columns=columns, rows=tuple(rows), key=("name",)
    )


def missing_table(period: Period) -> ReportTable:
    """Return what this report lacks, why, and which counters started over within the period."""
    columns = (
        text("section", "Section"),
        text("reason", "Why"),
        text("lacks", "Missing from the report"),
    )
    rows = [
        Row(
            cells=(
                str(record.get("section")),
                str(record.get("reason")),
                _LACKS.get(str(record.get("section")), str(record.get("section"))),
            )
        )
        for record in period.gauge(MISSING)
    ]
    named = {str(record.get("section")) for record in period.gauge(MISSING)}
    for name, seconds in sorted(period.covered_s.items()):
        if seconds == 0:
            if name not in named:
                reason = "no interval of the period has its counts"
                rows.append(Row(cells=(name, reason, _LACKS.get(name, name))))
        elif seconds < period.elapsed_s - 1:
            reason = f"had for {duration(seconds)} of {duration(period.elapsed_s)}"
            rows.append(Row(cells=(name, reason, "the rest of the period")))
    rows += [Row(cells=_of_reset(reset)) for reset in period.resets]
    if not rows:
        return missing("missing", "What is missing", columns, "Nothing.")
    return ReportTable(
        id="missing",
        title="What is missing",
        columns=columns,
        rows=tuple(rows),
        key=("section",),
    )


def _of_reset(reset: Reset) -> tuple[str, str, str]:
    at = f" at {reset.at}" if reset.at else ""
    return (
        reset.section,
        f"{reset.row or 'the counters'} reset{at}",
        "what was counted between the previous snapshot and the reset",
    )
