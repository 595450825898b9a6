# SPDX-License-Identifier: PostgreSQL
"""The load: a summary of the period, and its profile per second and per transaction."""

from pgflash.analyze.dbtime import mean_ms, source_of, total_of
from pgflash.analyze.figures import Databases, databases, sent_by_clients, wal
from pgflash.analyze.grid import exact, figure, missing, ratio, text
from pgflash.analyze.parts import DbTime, reads_source, wal_timed
from pgflash.analyze.period import Period
from pgflash.analyze.sections import number, total
from pgflash.model.awr import Cell, Number, ReportTable, Row, Source, Unit
from pgflash.model.snapshot import parse_time
from pgflash.model.waits import WaitClass

_PROFILE_COLUMNS = (
    text("name", "What"),
    figure("total", "Total", Unit.COUNT, None),
    figure("per_s", "Per second", Unit.PER_SECOND, None),
    figure("per_transaction", "Per transaction", Unit.PER_TRANSACTION, None),
)

_RATES = {
    Unit.COUNT: (Unit.PER_SECOND, Unit.PER_TRANSACTION),
    Unit.BYTES: (Unit.BYTES_PER_SECOND, Unit.BYTES_PER_TRANSACTION),
    Unit.SECONDS: (Unit.SESSIONS, Unit.MILLISECONDS_PER_TRANSACTION),
}


def profile_row(
    name: str,
    value: float | None,
    unit: Unit,
    *,
    elapsed_s: float,
    transactions: float,
    source: Source = Source.EXACT,
) -> Row:
    """Return a quantity, also per second and per transaction.

    Seconds per second are average sessions; a time per transaction is in milliseconds.
    """
    per_s_unit, per_transaction_unit = _RATES[unit]
    per_s = ratio(value, elapsed_s)
    each = ratio(value, transactions)
    if unit is Unit.SECONDS and each is not None:
        each *= 1000
    cells: list[Cell] = [name]
    for found, of in ((value, unit), (per_s, per_s_unit), (each, per_transaction_unit)):
        cells.append(None if found is None else Number(value=found, unit=of, source=source))
    return Row(cells=tuple(cells), source=source)


def load_profile(period: Period, found: DbTime) -> ReportTable:
    """Return the load per second and per transaction."""
    title = "Load profile"
    counted = databases(period)
    if counted is None:
        reason = period.missing_reason("database") or "The snapshots have no section database."
        return missing("load-profile", title, _PROFILE_COLUMNS, reason)
    return ReportTable(
        id="load-profile",
        title=title,
        columns=_PROFILE_COLUMNS,
        rows=tuple(
            profile_row(
                name,
                value,
                unit,
                elapsed_s=period.elapsed_s,
                transactions=counted.transactions,
                source=source,
            )
            for name, value, unit, source in _quantities(period, counted, found)
            if value is not None
        ),
        key=("name",),
        measure="per_s",
        note="A transaction is a commit or a rollback, of any database. Seconds per second are "
        "average active sessions.",
    )


def _quantities(
    period: Period, counted: Databases, found: DbTime
) -> list[tuple[str, float | None, Unit, Source]]:
    logged = wal(period, timed=wal_timed(period))
    own_io = [r for r in period.records("io") if r.get("file_class") == "data"]
    statements = [r for r in period.records("statements") if sent_by_clients(r)]

    def calls(operation: str, source: str = "") -> float | None:
        if not own_io:
            return None
        chosen = [
            r for r in own_io if r.get("operation") == operation and source in ("", r.get("source"))
        ]
        return total(chosen, "calls")

    def size(operation: str) -> float | None:
        chosen = [r for r in own_io if r.get("operation") == operation]
        return total(chosen, "bytes") if own_io else None

    cpu = found.cpu_s
    exact_ones: list[tuple[str, float | None, Unit]] = [
        ("DB CPU", cpu, Unit.SECONDS),
        ("transactions", counted.transactions, Unit.COUNT),
        ("rollbacks", counted.rollbacks, Unit.COUNT),
        ("statements executed", total(statements, "calls") if statements else None, Unit.COUNT),
        ("WAL bytes", logged.bytes if logged else None, Unit.BYTES),
        ("WAL records", logged.records if logged else None, Unit.COUNT),
        ("WAL syncs", logged.syncs if logged else None, Unit.COUNT),
        ("blocks looked up", counted.blocks_hit + counted.blocks_read, Unit.COUNT),
        ("blocks not in shared_buffers", counted.blocks_read, Unit.COUNT),
        ("data reads from disk", calls("read", "disk"), Unit.COUNT),
        ("data reads from the page cache", calls("read", "page cache"), Unit.COUNT),
        ("data reads from the flash cache", calls("read", "flash"), Unit.COUNT),
        ("data read", size("read"), Unit.BYTES),
        ("data writes", calls("write"), Unit.COUNT),
        ("data written", size("write"), Unit.BYTES),
        ("rows returned", counted.rows_returned, Unit.COUNT),
        ("rows fetched", counted.rows_fetched, Unit.COUNT),
        ("rows inserted", counted.rows_inserted, Unit.COUNT),
        ("rows updated", counted.rows_updated, Unit.COUNT),
        ("rows deleted", counted.rows_deleted, Unit.COUNT),
        ("temporary files", counted.temp_files, Unit.COUNT),
        ("temporary bytes", counted.temp_bytes, Unit.BYTES),
        ("sessions begun", counted.sessions, Unit.COUNT),
    ]
    head = ("DB time", found.composition.db_time_s, Unit.SECONDS, found.composition.db_time_source)
    told = reads_source(period)
    return [
        head,
        *(
            (name, value, unit, told if name.startswith("data reads from") else Source.EXACT)
            for name, value, unit in exact_ones
        ),
    ]


def summary(period: Period, found: DbTime) -> ReportTable:
    """Return the figures that a reader wants first."""
    composition = found.composition
    counted = databases(period)
    cores = cores_of(period)
    rows: list[tuple[str, Cell]] = [
        ("elapsed", exact(period.elapsed_s, Unit.SECONDS)),
        ("snapshots", exact(len(period.intervals) + 1, Unit.COUNT)),
        ("DB time", _of(composition.db_time_s, Unit.SECONDS, composition.db_time_source)),
        (
            "average active sessions",
            _of(
                composition.sessions(composition.db_time_s),
                Unit.SESSIONS,
                composition.db_time_source,
            ),
        ),
        ("processors", exact(cores, Unit.COUNT)),
        ("DB CPU", exact(found.cpu_s, Unit.SECONDS)),
    ]
    if cores and found.cpu_s is not None:
        share = ratio(found.cpu_s, cores * period.elapsed_s)
        rows.append(("DB CPU of the machine's processors", exact(share, Unit.SHARE)))
    if counted is not None:
        rows += _of_databases(counted, period.elapsed_s)
        rows.append(("wait for a commit", commit_wait(found, counted)))
    rows += _of_cache(period)
    rows += _of_recovery(period)
    return ReportTable(
        id="summary",
        title="Summary",
        columns=(text("name", "What"), figure("value", "Value", Unit.COUNT, None)),
        rows=tuple(Row(cells=(name, cell)) for name, cell in rows if cell is not None),
        key=("name",),
        measure="value",
    )


def commit_wait(found: DbTime, counted: Databases) -> Number | None:
    """Return what a commit waited on average: for the WAL, for those before it, for standbys.

    Transactions that changed nothing commit, too, and do not wait.
    """
    parts = found.composition.of_class(WaitClass.COMMIT)
    mean = mean_ms(total_of(parts), counted.commits) if parts else None
    return _of(mean, Unit.MILLISECONDS, source_of(parts))


def _of_databases(counted: Databases, elapsed_s: float) -> list[tuple[str, Cell]]:
    looked_up = counted.blocks_hit + counted.blocks_read
    return [
        ("transactions", exact(counted.transactions, Unit.COUNT)),
        (
            "transactions per second",
            exact(ratio(counted.transactions, elapsed_s), Unit.PER_SECOND),
        ),
        ("rollbacks", exact(ratio(counted.rollbacks, counted.transactions), Unit.SHARE)),
        ("blocks found in shared_buffers", exact(ratio(counted.blocks_hit, looked_up), Unit.SHARE)),
        ("deadlocks", exact(counted.deadlocks or None, Unit.COUNT)),
        ("checksum failures", exact(counted.checksum_failures or None, Unit.COUNT)),
    ]


def _of_cache(period: Period) -> list[tuple[str, Cell]]:
    cache = period.record("cache")
    if cache is None or not cache.get("cache_file"):
        return []
    hits, misses = number(cache.get("hits")), number(cache.get("misses"))
    return [
        ("flash cache mode", str(cache.get("mode"))),
        ("flash cache hits", exact(ratio(hits, hits + misses), Unit.SHARE)),
    ]


def _of_recovery(period: Period) -> list[tuple[str, Cell]]:
    rows: list[tuple[str, Cell]] = []
    for record in period.gauge("stat_recovery"):
        rows.append(("replay of WAL at the end", str(record.get("pause_state"))))
        if replayed := record.get("recovery_last_xact_time"):
            age_s = period.end.taken_at - parse_time(str(replayed))
            rows.append(
                ("age of the last transaction replayed", exact(age_s.total_seconds(), Unit.SECONDS))
            )
    return rows


def cores_of(period: Period) -> int | None:
    """Return the number of the machine's processors."""
    for record in period.gauge("server"):
        cores = int(number(record.get("cores")))
        return cores or None
    return None


def _of(value: float | None, unit: Unit, source: Source) -> Number | None:
    return None if value is None else Number(value=value, unit=unit, source=source)
