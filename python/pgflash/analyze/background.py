# SPDX-License-Identifier: PostgreSQL
"""What the server does besides serving clients: checkpoints, vacuum, replication.

PostgreSQL counts all of it exactly; what its versions name and count differently is in figures.py.
For standbys and slots, a snapshot knows only how far behind they were at that moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo

from pgflash.analyze.figures import WRITERS, BufferWrites, buffer_writes, checkpoints, wal
from pgflash.analyze.grid import ROWS_MAX, RowsMax, exact, figure, missing, ratio, text
from pgflash.analyze.parts import CLIENT, wal_timed
from pgflash.analyze.period import Period
from pgflash.analyze.sections import number, total
from pgflash.analyze.segments import is_rest, relation_name
from pgflash.analyze.timeline import iso
from pgflash.model.awr import Cell, Column, ReportTable, Row, Source, Unit
from pgflash.model.snapshot import Value, parse_time
from pgflash.model.words import things

#: Autovacuum leaves a table with fewer dead rows alone (autovacuum_vacuum_threshold).
DEAD_MIN = 50

_Rows = list[dict[str, Value]]

# ---- checkpoints

_WORK_COLUMNS = (
    text("name", "What"),
    figure("total", "Total", Unit.COUNT, None),
    figure("per_s", "Per second", Unit.PER_SECOND, None),
    figure("share", "Of the blocks written", Unit.SHARE),
)


def checkpoints_table(period: Period) -> ReportTable:
    """Return what the checkpointer and the background writer did."""
    title = "Checkpoints and background writer"
    done, others = checkpoints(period), buffer_writes(period, block_bytes=period.block_bytes)
    if done is None or others is None:
        reason = period.missing_reason("bgwriter") or "The snapshots have no section bgwriter."
        return missing("checkpoints", title, _WORK_COLUMNS, reason)
    logged = wal(period, timed=wal_timed(period))
    by_clients, by_rest, syncs, whose = _written(period, others)
    blocks = (
        ("blocks written by checkpoints", done.buffers_written),
        ("blocks written by the background writer", others.by_writer),
        (f"blocks written by {whose}", by_clients),
        ("blocks written by other processes", by_rest),
    )
    written = sum(value or 0 for _, value in blocks)
    number_of = done.timed + done.requested
    rows = [
        _work("checkpoints, by time", done.timed, Unit.COUNT, period),
        _work("checkpoints, requested", done.requested, Unit.COUNT, period),
        _work("checkpoints with something to write", done.done, Unit.COUNT, period),
        _work("restartpoints", done.restartpoints, Unit.COUNT, period),
        _only("time from one to the next", ratio(period.elapsed_s, number_of), Unit.SECONDS),
        _work("time writing", done.write_s, Unit.SECONDS, period),
        _work("time syncing", done.sync_s, Unit.SECONDS, period),
        *(_work(name, value, Unit.COUNT, period, of=written) for name, value in blocks),
        _work("syncs by clients", syncs, Unit.COUNT, period),
        _work(
            "rounds that ended at bgwriter_lru_maxpages", others.rounds_ended, Unit.COUNT, period
        ),
        _work("buffers allocated", others.allocated, Unit.COUNT, period),
    ]
    if logged is not None:
        rows += [
            _work("full-page images", logged.full_page_images, Unit.COUNT, period),
            _only(
                "of the WAL, at most",
                images_share(logged.full_page_images, logged.bytes, period.block_bytes),
                Unit.SHARE,
            ),
        ]
    return ReportTable(
        id="checkpoints",
        title=title,
        columns=_WORK_COLUMNS,
        rows=tuple(row for row in rows if row is not None),
        key=("name",),
        measure="per_s",
        note="The first change to a page after a checkpoint writes the whole page to the WAL, as a "
        f"full-page image of at most {period.block_bytes // 1024} kB.",
    )


def images_share(images: float, wal_bytes: float, block_bytes: int) -> float | None:
    """Return at most how much of the WAL full-page images were."""
    share = ratio(images * block_bytes, wal_bytes)
    return None if share is None else min(share, 1.0)


def _written(period: Period, stock: BufferWrites) -> tuple[int | None, int | None, int | None, str]:
    """Return blocks that clients wrote to get a free buffer, and others; clients' syncs.

    Last comes who counts as a client.
    """
    files = [r for r in period.records("io") if r.get("file_class") == "data"]
    own = [r for r in files if r.get("backend_type") == CLIENT]
    if not own:
        whose = "clients" if period.major >= 16 else "backends, extensions included"
        return stock.by_clients, stock.by_others, stock.client_syncs, whose
    rest = [r for r in files if r.get("backend_type") not in WRITERS]
    by_clients, by_rest = (
        int(total((r for r in records if r.get("operation") == "write"), "bytes"))
        // period.block_bytes
        for records in (own, rest)
    )
    synced = total((r for r in own if r.get("operation") == "sync"), "calls")
    return by_clients, by_rest, int(synced), "clients"


_PER_SECOND = {Unit.COUNT: Unit.PER_SECOND, Unit.SECONDS: Unit.SESSIONS}


def _work(
    name: str, value: float | None, unit: Unit, period: Period, *, of: float | None = None
) -> Row | None:
    """Return a total with its rate; nothing if this server does not count it."""
    if value is None:
        return None
    per_s = exact(ratio(value, period.elapsed_s), _PER_SECOND[unit])
    share = None if of is None else ratio(value, of)
    return Row(cells=(name, exact(value, unit), per_s, share), source=Source.EXACT)


def _only(name: str, value: float | None, unit: Unit) -> Row | None:
    """Return a figure that is no total."""
    if value is None:
        return None
    return Row(cells=(name, exact(value, unit), None, None), source=Source.EXACT)


# ---- vacuum

_VACUUM_COLUMNS = (
    text("relation", "Relation"),
    text("database", "Database"),
    figure("dead_rows", "Dead rows", Unit.COUNT),
    figure(
        "dead_share", "% dead", Unit.SHARE, note="Dead rows as a share of all rows, at the end."
    ),
    figure("changed", "Updated and deleted", Unit.COUNT),
    figure("hot_share", "% HOT", Unit.SHARE, note="Updates that needed no index entry."),
    figure("autovacuums", "Autovacuums", Unit.COUNT),
    figure("vacuums", "Vacuums", Unit.COUNT),
    figure("vacuum_s", "Time in vacuum", Unit.SECONDS, note="Counted by PostgreSQL 18 and later."),
    figure("analyzes", "Analyzes", Unit.COUNT),
    figure("frozen_age", "Age", Unit.COUNT, note="Transactions since the oldest unfrozen row."),
    Column(name="last_vacuum", title="Last vacuum", unit=Unit.TIME),
)


def vacuum(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return what vacuum did to tables, and what it left."""
    title = "Vacuum"
    counted = {_key(one): one for one in period.records("relation_stats") if _is_table(one)}
    states = {_key(one): one for one in period.gauge("dead_rows")}
    no_row: Mapping[str, Value] | None = {} if _all_counted(period) else None
    rows = []
    for key in {**counted, **states}:
        cells = _vacuum_cells(key, counted.get(key, no_row), states.get(key, {}), period.zone)
        if cells is not None:
            rows.append(Row(cells=cells))
    if not rows:
        absent = [name for name in ("relation_stats", "dead_rows") if period.missing_reason(name)]
        reason = period.missing_reason(absent[0]) if absent else "There was nothing to vacuum."
        if not (counted or states or absent):
            reason = "The snapshots have no section dead_rows."
        return missing("vacuum", title, _VACUUM_COLUMNS, reason)
    place = 2
    rows.sort(key=lambda row: (-float(str(row.cells[place] or 0)), str(row.cells[0])))
    shown = rows[:rows_max]
    left_out = len(rows) - len(shown)
    return ReportTable(
        id="vacuum",
        title=title,
        columns=_VACUUM_COLUMNS,
        rows=tuple(shown),
        key=("relation", "database"),
        measure="dead_rows",
        note="Tables of the database that keeps the snapshots, with dead rows or a vacuum."
        + (f" {left_out} more have fewer dead rows." if left_out else "")
        + _oldest(period),
    )


def _key(record: Mapping[str, Value]) -> tuple[str, str]:
    return relation_name(record), str(record.get("database") or "")


def _is_table(record: Mapping[str, Value]) -> bool:
    return record.get("relkind") in ("r", "m", "t") and not is_rest(record)


def _all_counted(period: Period) -> bool:
    """Tell whether all that was counted of relations has the name of one."""
    rest = (r for r in period.records("relation_stats") if is_rest(r))
    return "relation_stats" in period.totals and not any(
        isinstance(value, (int, float)) and value for one in rest for value in one.values()
    )


def _vacuum_cells(
    key: tuple[str, str],
    row: Mapping[str, Value] | None,
    state: Mapping[str, Value],
    zone: tzinfo,
) -> tuple[Cell, ...] | None:
    """Return a table's cells; nothing if there is nothing to say.

    Without a row it is not known what happened to the table.
    """
    counted, known = row or {}, row is not None
    runs = [
        int(number(counted.get(name)))
        for name in ("autovacuums", "vacuums", "autoanalyzes", "analyzes")
    ]
    dead, live = number(state.get("dead_rows")), number(state.get("live_rows"))
    if dead < DEAD_MIN and not any(runs):
        return None
    updated, deleted = number(counted.get("rows_updated")), number(counted.get("rows_deleted"))
    times = [counted.get("vacuum_time_ms"), counted.get("autovacuum_time_ms")]
    timed = any(one is not None for one in times)
    ends = [
        parse_time(str(state[one]))
        for one in ("last_vacuum", "last_autovacuum")
        if state.get(one) is not None
    ]
    return (
        *key,
        int(dead) if state else None,
        ratio(dead, dead + live) if state else None,
        int(updated + deleted) if known else None,
        ratio(number(counted.get("rows_hot_updated")), updated),
        runs[0] if known else None,
        runs[1] if known else None,
        sum(number(one) for one in times) / 1000 if timed else None,
        runs[2] + runs[3] if known else None,
        int(number(state.get("frozen_age"))) if state else None,
        iso(max(ends), zone) if ends else None,
    )


def _oldest(period: Period) -> str:
    """Say which database is nearest to running out of transaction numbers."""
    oldest = oldest_database(period)
    if oldest is None:
        return ""
    name, age = oldest
    return (
        f" Of all databases, {name} has the oldest unfrozen row: {things(age, 'transaction')} old."
    )


def oldest_database(period: Period) -> tuple[str, float] | None:
    """Return the database with the oldest row that is not frozen, and its age."""
    ages = {
        str(one.get("database")): number(one.get("frozen_age"))
        for one in period.gauge("databases")
        if one.get("frozen_age") is not None
    }
    return max(ages.items(), key=lambda item: item[1]) if ages else None


# ---- replication

_STANDBY_COLUMNS = (
    text("name", "Receiver"),
    text("address", "Address"),
    text("state", "State"),
    text("sync_state", "Sync"),
    figure("replay_bytes", "Not replayed", Unit.BYTES, note="As of the end."),
    figure("replay_bytes_max", "At most", Unit.BYTES, note="Of all snapshots of the period."),
    figure("flush_bytes", "Not on its disk", Unit.BYTES, note="As of the end."),
    figure("write_ms", "Write lag", Unit.MILLISECONDS),
    figure("flush_ms", "Flush lag", Unit.MILLISECONDS),
    figure("replay_ms", "Replay lag", Unit.MILLISECONDS),
    figure("replay_ms_max", "At most", Unit.MILLISECONDS, note="Of all snapshots of the period."),
)


def replication(period: Period) -> ReportTable:
    """Return how far behind receivers of WAL were; of a standby, also itself."""
    title = "Replication"
    looks = period.every_gauge("replication")
    last = _by_receiver([period.gauge("replication")])
    gone = _gone(period, "replication")
    rows = [
        Row(cells=_standby_cells(key, records, last.get(key, [{"state": gone}])[0]))
        for key, records in _by_receiver(looks).items()
    ]
    own = [_caught_up(one) for records in period.every_gauge("standby") for one in records]
    if own:
        promoted = "promoted" if _gone(period, "standby") == GONE else NOT_KNOWN
        at_end = [_caught_up(one) for one in period.gauge("standby")] or [{"status": promoted}]
        rows.insert(0, _this_standby(own, at_end[0]))
    if not rows:
        reason = period.missing_reason("replication") or (
            "Nobody received WAL." if looks else "The snapshots have no section replication."
        )
        return missing("replication", title, _STANDBY_COLUMNS, reason)
    return ReportTable(
        id="replication",
        title=title,
        columns=_STANDBY_COLUMNS,
        rows=tuple(rows),
        key=("name", "address"),
        measure="replay_bytes",
        note="As of each snapshot: what happened in between is unknown. What is gone was there at "
        "an earlier one. Of receivers with one name and address, the one furthest behind is shown. "
        "PostgreSQL measures lags only while WAL is sent. Commits that wait for a standby are the "
        "event IPC:SyncRep.",
    )


def _caught_up(standby: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return a standby's row, with no lag if it is connected and has replayed all it received.

    The age of the last replayed transaction grows while the primary is idle.
    """
    behind = standby.get("replay_bytes")
    if standby.get("status") is None or behind is None or number(behind) > 0:
        return standby
    return {**standby, "replay_age_ms": 0.0}


#: The state of what an earlier snapshot has and the last one has not; of a last one without it all.
GONE, NOT_KNOWN = "gone", "not known"


def _gone(period: Period, section: str) -> str:
    """Return the state at the end of what a section no longer has."""
    return GONE if section in period.end_gauges else NOT_KNOWN


def _by_receiver(looks: Iterable[_Rows]) -> dict[tuple[str, str], _Rows]:
    """Return each receiver's rows; of several alike in a snapshot, that of the furthest behind."""
    found: dict[tuple[str, str], _Rows] = {}
    for rows in looks:
        alike: dict[tuple[str, str], _Rows] = {}
        for record in rows:
            key = (
                str(record.get("application_name") or ""),
                str(record.get("client_address") or ""),
            )
            alike.setdefault(key, []).append(record)
        for key, same in alike.items():
            worst = max(same, key=lambda one: number(one.get("replay_bytes")))
            if len(same) > 1:
                worst = {**worst, "state": f"{worst.get('state')}, furthest behind of {len(same)}"}
            found.setdefault(key, []).append(worst)
    return found


def _standby_cells(
    key: tuple[str, str], records: Sequence[Mapping[str, Value]], last: Mapping[str, Value]
) -> tuple[Cell, ...]:
    return (
        *key,
        str(last.get("state") or ""),
        str(last.get("sync_state") or ""),
        _whole(last.get("replay_bytes")),
        _most(records, "replay_bytes"),
        _whole(last.get("flush_bytes")),
        _known(last.get("write_lag_ms")),
        _known(last.get("flush_lag_ms")),
        _known(last.get("replay_lag_ms")),
        _most(records, "replay_lag_ms"),
    )


def _this_standby(records: Sequence[Mapping[str, Value]], last: Mapping[str, Value]) -> Row:
    return Row(
        cells=(
            "this standby",
            str(last.get("sender_host") or records[-1].get("sender_host") or ""),
            str(last.get("status") or "not connected"),
            "",
            _whole(last.get("replay_bytes")),
            _most(records, "replay_bytes"),
            None,
            None,
            None,
            _known(last.get("replay_age_ms")),
            _most(records, "replay_age_ms"),
        )
    )


_SLOT_COLUMNS = (
    text("slot", "Slot"),
    text("slot_type", "Type"),
    text("database", "Database"),
    text("active", "Active"),
    text("wal_status", "Its WAL is"),
    figure("retained_bytes", "WAL kept for it", Unit.BYTES, note="As of the end."),
    figure("retained_bytes_max", "At most", Unit.BYTES, note="Of all snapshots of the period."),
)


def replication_slots(period: Period) -> ReportTable:
    """Return the WAL that is kept for replication slots."""
    title = "Replication slots"
    looks = period.every_gauge("replication_slots")
    found: dict[str, _Rows] = {}
    for rows in looks:
        for record in rows:
            found.setdefault(str(record.get("slot")), []).append(record)
    if not found:
        reason = period.missing_reason("replication_slots") or (
            "There are no replication slots."
            if looks
            else "The snapshots have no section replication_slots."
        )
        return missing("replication-slots", title, _SLOT_COLUMNS, reason)
    last = {str(record.get("slot")): record for record in period.gauge("replication_slots")}
    gone = _gone(period, "replication_slots")
    made = [
        Row(
            cells=(
                slot,
                str(records[-1].get("slot_type") or ""),
                str(records[-1].get("database") or ""),
                gone if slot not in last else "yes" if last[slot].get("active") else "no",
                str(last.get(slot, {}).get("wal_status") or ""),
                _whole(last.get(slot, {}).get("retained_bytes")),
                _most(records, "retained_bytes"),
            )
        )
        for slot, records in sorted(found.items())
    ]
    return ReportTable(
        id="replication-slots",
        title=title,
        columns=_SLOT_COLUMNS,
        rows=tuple(made),
        key=("slot",),
        measure="retained_bytes",
    )


def _known(value: Value) -> float | None:
    return None if value is None else number(value)


def _whole(value: Value) -> int | None:
    return None if value is None else max(int(number(value)), 0)


def _most(records: Iterable[Mapping[str, Value]], column: str) -> float | int | None:
    values = [one.get(column) for one in records if one.get(column) is not None]
    if not values:
        return None
    most = max(number(value) for value in values)
    return max(int(most), 0) if column.endswith("_bytes") else most
