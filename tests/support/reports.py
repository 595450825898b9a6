# SPDX-License-Identifier: PostgreSQL
"""Hand-made reports on a period for tests of their printed forms: round numbers, no server."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pgflash.model.awr import (
    AwrReport,
    Cell,
    Column,
    CompareReport,
    Finding,
    Number,
    PeriodHead,
    ReportTable,
    Row,
    RowMark,
    Severity,
    Source,
    Unit,
)
from pgflash.model.waits import WaitClass

BEGIN = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
EXACT, SAMPLED, MODELLED = Source.EXACT, Source.SAMPLED, Source.MODELLED


def head(*, begin: int = 7, end: int = 17, minutes: int = 100) -> PeriodHead:
    return PeriodHead(
        begin_id=begin,
        end_id=end,
        begin_at=BEGIN.isoformat(),
        end_at=(BEGIN + timedelta(minutes=minutes)).isoformat(),
        elapsed_s=60.0 * minutes,
        snapshots=end - begin + 1,
        server_version="18.6",
        server_version_num=180006,
        extension_version="0.1",
        server_started_at=(BEGIN - timedelta(days=3)).isoformat(),
        cores=8,
        memory_bytes=64 * 2**30,
    )


def column(
    name: str, unit: Unit = Unit.TEXT, source: Source | None = EXACT, *, note: str = ""
) -> Column:
    return Column(name=name, title=name.replace("_", " "), unit=unit, source=source, note=note)


def table(
    table_id: str,
    columns: Sequence[Column],
    *rows: Row | Sequence[Cell],
    note: str = "",
    key: Sequence[str] = (),
) -> ReportTable:
    """Return a table with an id; a row is a Row or just its cells."""
    return ReportTable(
        id=table_id,
        title=table_id.replace("-", " ").capitalize(),
        columns=tuple(columns),
        rows=tuple(one if isinstance(one, Row) else Row(cells=tuple(one)) for one in rows),
        note=note,
        key=tuple(key),
    )


def report(*tables: ReportTable, findings: Sequence[Finding] = ()) -> AwrReport:
    return AwrReport(
        pgflash_version="0.1.0", head=head(), findings=tuple(findings), tables=tuple(tables)
    )


def comparison(*tables: ReportTable, findings: Sequence[Finding] = ()) -> CompareReport:
    return CompareReport(
        pgflash_version="0.1.0",
        first=head(),
        second=head(begin=17, end=27),
        findings=tuple(findings),
        tables=tuple(tables),
    )


def moments(count: int, *, step_s: int = 60) -> list[str]:
    return [(BEGIN + timedelta(seconds=step_s * i)).isoformat() for i in range(count)]


def aas_over_time(count: int = 100, *, gap: range = range(0)) -> ReportTable:
    """Return one row a minute, each class with its own constant height; none in the gap."""
    classes = [one for one in WaitClass if one is not WaitClass.IDLE]
    columns = [column("time", Unit.TIME), column("elapsed_s", Unit.SECONDS)]
    columns += [
        Column(name=str(one), title=str(one), unit=Unit.SESSIONS, source=SAMPLED) for one in classes
    ]
    rows: list[Sequence[Cell]] = [
        (moment, 60.0, *(0.5 + 0.25 * place for place in range(len(classes))))
        for i, moment in enumerate(moments(count))
        if i not in gap
    ]
    return table("aas-over-time", columns, *rows)


def whole_report() -> AwrReport:
    """Return a report with a table of every kind."""
    return report(
        _top_events(),
        _summary(),
        aas_over_time(gap=range(40, 50)),
        _throughput(),
        _latency(),
        _cpu(),
        _read_latency(),
        _segments(),
        _sql(),
        _iostat(),
        ReportTable(
            id="buffer-advice",
            title="Buffer advice",
            columns=(),
            missing_reason="the extension is not installed in this database",
        ),
        table("settings-changed", [column("setting"), column("before"), column("after")]),
        findings=FINDINGS,
    )


FINDINGS = (
    Finding(
        rule="top-event",
        severity=Severity.CRITICAL,
        sentence="72 % of DB time was single-block reads of stock at 13.6 ms.",
        evidence=("196,059 s of 272,304 s", "14.4 million reads, all from disk"),
        table="top-events",
        advice="Give the flash cache 90 GB: by the advice table it would serve 81 % of them.",
    ),
    Finding(
        rule="commit",
        severity=Severity.WARNING,
        sentence="8 % of DB time was commit.",
        table="top-events",
    ),
    Finding(
        rule="stable",
        severity=Severity.GOOD,
        sentence="No setting changed.",
        table="settings-changed",
    ),
    Finding(rule="alone", severity=Severity.NOTE, sentence="The counters of slru started over."),
)


def _top_events() -> ReportTable:
    columns = [
        column("event"),
        column("class"),
        column("waits", Unit.COUNT, None),
        column("time", Unit.SECONDS, None),
        column("mean", Unit.MILLISECONDS, None),
        column("share", Unit.SHARE, None),
    ]

    def row(*cells: Cell, source: Source = EXACT, mark: RowMark = RowMark.PLAIN) -> Row:
        return Row(cells=cells, source=source, mark=mark)

    return table(
        "top-events",
        columns,
        row("read of a data file, disk", "User I/O", 14_400_000, 196_059.0, 13.6, 0.72),
        row("WAL sync", "Commit", 1_000_000, 21_784.3, 21.8, 0.08),
        row("LWLock:BufferContent", "Concurrency", None, 9_000.0, None, 0.033, source=SAMPLED),
        row("DB CPU", "CPU", None, 36_000.0, None, 0.1322),
        row("read of a data file, flash", "User I/O", 12, 0.0042, 0.352, 1.5e-8),
        row("not explained", "", None, 9_460.7, None, 0.0347, mark=RowMark.RESIDUAL),
        row("DB time", "", None, 272_304.0, None, 1.0, mark=RowMark.TOTAL),
        row("io worker", "System I/O", None, 500.0, None, None, mark=RowMark.APART),
        note="Foreground sessions only.",
    )


def _summary() -> ReportTable:
    def line(name: str, value: float, unit: Unit, source: Source = EXACT) -> tuple[Cell, ...]:
        return name, Number(value=value, unit=unit, source=source)

    columns = [column("figure"), column("value", Unit.COUNT, None)]
    return table(
        "summary",
        columns,
        line("DB time", 272_304.0, Unit.SECONDS),
        line("sessions at work", 45.4, Unit.SESSIONS, SAMPLED),
        line("database", 3 * 2**40, Unit.BYTES),
        line("flash hit ratio, were it twice as large", 0.81, Unit.SHARE, MODELLED),
        ("commits", Number(value=1_000_000, unit=Unit.COUNT, source=EXACT)),
    )


def _throughput() -> ReportTable:
    columns = [
        column("time", Unit.TIME),
        column("transactions", Unit.PER_SECOND),
        column("reads/s, disk", Unit.PER_SECOND),
        column("reads/s, flash", Unit.PER_SECOND),
        column("WAL", Unit.BYTES_PER_SECOND),
    ]
    rows = [
        (moment, 160.0 + i, 900.0 - 5 * i, 10.0 * i, 2.0e8 + 1e6 * i)
        for i, moment in enumerate(moments(100))
    ]
    return table("throughput-over-time", columns, *rows)


def _latency() -> ReportTable:
    columns = [
        column("time", Unit.TIME),
        column("disk_read", Unit.MILLISECONDS),
        column("flash_read", Unit.MILLISECONDS),
        column("WAL_sync", Unit.MILLISECONDS),
    ]
    rows = [
        (moment, 13.6, 0.35 if i > 20 else None, 20.0 + i % 5)
        for i, moment in enumerate(moments(100))
    ]
    return table("latency-over-time", columns, *rows)


def _cpu() -> ReportTable:
    names = ("User", "System", "I/O wait", "Idle")
    columns = [column("time", Unit.TIME), *(column(name, Unit.SHARE) for name in names)]
    rows = [(moment, 0.4, 0.1, 0.2, 0.3) for moment in moments(100)]
    return table("cpu-over-time", columns, *rows)


def _read_latency() -> ReportTable:
    columns = [
        column("lower_us", Unit.MICROSECONDS),
        column("upper_us", Unit.MICROSECONDS),
        column("Page cache", Unit.COUNT),
        column("Flash", Unit.COUNT),
        column("Disk", Unit.COUNT),
    ]
    rows = [
        (2.0**i, 2.0 ** (i + 1), 4000 >> abs(i - 3), 9000 >> abs(i - 8), 7000 >> abs(i - 13))
        for i in range(18)
    ]
    total = Row(cells=(None, None, 12_000, 27_000, 21_000), mark=RowMark.TOTAL)
    return table("read-latency", columns, *rows, total)


def _segments() -> ReportTable:
    columns = [
        column("database"),
        column("segment"),
        column("kind"),
        *(column(f"{what}_{where}", Unit.COUNT) for what in ("reads", "writes")
          for where in ("disk", "flash", "page_cache", "all")),
        column("read", Unit.BYTES),
        column("read_time", Unit.SECONDS),
        column("mean_read", Unit.MILLISECONDS),
        column("share", Unit.SHARE, note="of the time of all reads"),
    ]  # fmt: skip
    rows = [
        ("tpcc", f"public.table_{i}", "index" if i % 2 else "table",
         *(10 ** (6 - i % 5) + place for place in range(8)), 8192 * 10 ** (6 - i % 5),
         1000.0 / (i + 1), 13.6 / (i + 1), 0.5 / (i + 1))
        for i in range(20)
    ]  # fmt: skip
    return table("segments-reads", columns, *rows, key=("database", "segment"))


def _sql() -> ReportTable:
    columns = [
        column("query_id"),
        column("query"),
        column("calls", Unit.COUNT),
        column("time", Unit.SECONDS),
        column("share", Unit.SHARE),
    ]
    query = "SELECT s_quantity, s_data\n  FROM stock\n WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE"
    rows: list[Row | Sequence[Cell]] = [
        (str(-(10**18) * i), query if i else f"{query} -- {'x' * 3000}", 1000 // (i + 1), 50.0, 0.1)
        for i in range(9)
    ]
    rest = ("", "commit and outside the executor", None, 55.0, 0.11)
    return table("sql-elapsed", columns, *rows, Row(cells=rest, mark=RowMark.REST))


def _iostat() -> ReportTable:
    names = ("r/s", "rkB/s", "rrqm/s", "r_await", "rareq-sz", "w/s", "wkB/s", "wrqm/s", "w_await",
             "wareq-sz", "f/s", "f_await", "aqu-sz", "util")  # fmt: skip
    columns = [column("device"), *(column(name, Unit.PER_SECOND) for name in names)]
    return table("host-iostat", columns, ("nvme0n1", *(float(i) for i in range(14))))
