# SPDX-License-Identifier: PostgreSQL
"""A whole report: it has all its tables, they are whole, and DB time adds up."""

from dataclasses import replace

import msgspec
import pytest

from pgflash.analyze import make_period, make_report
from pgflash.analyze.consistency import contradictions_of
from pgflash.model.awr import AwrReport, Number, ReportTable, RowMark, Source, Unit, plain
from pgflash.session import SIGNATURE
from support.busy import READS, STATEMENTS, busy_period, busy_store
from support.periods import Rows, Shelf

TABLES = (
    "summary",
    "db-time",
    "load-profile",
    "top-events",
    "wait-classes",
    "read-latency",
    "io-tablespaces",
    "io-function-filetype",
    "wal",
    "checkpoints",
    "vacuum",
    "replication",
    "replication-slots",
    "flash-cache",
    "flash-cache-advice",
    "segments-reads",
    "segments-read-time",
    "segments-writes",
    "segments-logical-reads",
    "segments-row-locks",
    "locks",
    "locks-long",
    "segments-cached",
    "sql-elapsed",
    "sql-cpu",
    "sql-reads",
    "sql-disk",
    "sql-flash",
    "sql-gets",
    "sql-executions",
    "sql-wal",
    "sql-temp",
    "sql-text",
    "host-vmstat",
    "host-iostat",
    "cpu-over-time",
    "aas-over-time",
    "throughput-over-time",
    "latency-over-time",
    "settings-changed",
    "settings",
    "missing",
)


@pytest.fixture(scope="module")
def report() -> AwrReport:
    return make_report(busy_period())


def row_of(table: ReportTable, name: str) -> dict[str, object]:
    """Return the row whose first cell is NAME."""
    for row in table.rows:
        if row.cells[0] == name:
            columns = [column.name for column in table.columns]
            return dict(zip(columns, map(plain, row.cells), strict=True))
    raise AssertionError(f"{table.id} has no row {name}")


def test_the_report_has_every_table_in_its_order(report: AwrReport) -> None:
    assert tuple(table.id for table in report.tables) == TABLES


@pytest.mark.parametrize("table_id", TABLES)
def test_a_table_is_whole(report: AwrReport, table_id: str) -> None:
    table = report.table(table_id)
    assert bool(table.rows) != bool(table.missing_reason)
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert {*table.key, *([table.measure] if table.measure else [])} <= set(names)
    for row in table.rows:
        assert len(row.cells) == len(table.columns)


@pytest.mark.parametrize("table_id", TABLES)
def test_every_number_says_where_it_comes_from(report: AwrReport, table_id: str) -> None:
    table = report.table(table_id)
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if isinstance(cell, (int, float)) and not column.is_text:
                assert column.source or row.source, column.name


@pytest.mark.parametrize("table_id", ["top-events", "wait-classes"])
def test_the_rows_and_the_residual_come_to_db_time(report: AwrReport, table_id: str) -> None:
    table = report.table(table_id)
    place = table.index("share")
    shares = [
        float(str(plain(row.cells[place])))
        for row in table.rows
        if row.mark in (RowMark.PLAIN, RowMark.REST, RowMark.RESIDUAL)
    ]
    assert sum(shares) == pytest.approx(1.0)
    (total,) = [row for row in table.rows if row.mark is RowMark.TOTAL]
    assert total.cells[place] == 1.0


def test_the_events_are_what_the_server_did(report: AwrReport) -> None:
    table = report.table("top-events")
    disk = row_of(table, "data file read, disk")
    assert disk["waits"] == 4_000
    assert disk["total_s"] == pytest.approx(54.4)
    assert disk["mean_ms"] == pytest.approx(13.6)
    assert disk["share"] == pytest.approx(0.544)
    assert disk["sessions"] == pytest.approx(54.4 / 1200)
    # 5 of 600 looks, through 1,200 s
    assert row_of(table, "LWLock:WALWrite")["total_s"] == pytest.approx(10.0)


def test_an_event_whose_calls_are_timed_is_not_counted_by_samples_too(report: AwrReport) -> None:
    events = report.table("top-events").values("event")
    assert "IO:DataFileRead" not in events
    assert "IO:WalSync" not in events


def test_reads_from_the_page_cache_are_processor_time_and_stand_apart(report: AwrReport) -> None:
    (row,) = [r for r in report.table("top-events").rows if r.mark is RowMark.APART]
    assert row.cells[0] == "data file read, page cache"


def test_idle_sessions_and_system_io_are_shown_and_no_db_time(report: AwrReport) -> None:
    apart = [r for r in report.table("wait-classes").rows if r.mark is RowMark.APART]
    assert {row.cells[0]: row.cells[2] for row in apart} == {
        "Idle": pytest.approx(100.0),
        "System I/O": pytest.approx(0.8),
    }


def test_sql_has_a_row_for_what_no_statement_is_booked_with(report: AwrReport) -> None:
    table = report.table("sql-elapsed")
    assert row_of(table, "commit and outside the executor")["total_s"] == pytest.approx(20.0)
    assert row_of(table, "select s_quantity from stock where s_i_id = $1")["calls"] == 2_000


def test_findings_name_the_relation_and_the_latency(report: AwrReport) -> None:
    first = report.findings[0]
    assert first.sentence.startswith(
        "54 % of DB time was single-block reads from disk, mostly of stock, at 13.6 ms;"
    )
    assert first.table == "top-events"


def test_good_news_is_said(report: AwrReport) -> None:
    (served,) = [f for f in report.findings if f.rule == "flash-served"]
    assert "83 % of the blocks" in served.sentence  # 10 of 12 thousand
    assert "280 µs a read against 13.6 ms" in served.sentence


def test_every_finding_points_to_a_table_that_has_rows(report: AwrReport) -> None:
    for finding in report.findings:
        assert report.table(finding.table).rows, finding.rule


def test_a_report_survives_being_stored(report: AwrReport) -> None:
    stored = msgspec.json.encode(report)
    assert msgspec.json.decode(stored, type=AwrReport) == report


def test_sampled_numbers_are_not_called_exact(report: AwrReport) -> None:
    table = report.table("top-events")
    sources = {row.cells[0]: row.source for row in table.rows}
    assert sources["LWLock:WALWrite"] is Source.SAMPLED
    assert sources["data file read, disk"] is Source.EXACT
    advice = report.table("flash-cache-advice")
    assert advice.columns[advice.index("hit_ratio")].source is Source.MODELLED
    assert advice.columns[advice.index("hit_ratio")].unit is Unit.SHARE


def test_a_ranking_has_its_first_rows_and_the_rest_or_every_row() -> None:
    store = busy_store(intervals=1)
    many = [
        {"query_id": n, "toplevel": True, "calls": 1, "exec_time_ms": 1000.0 * n}
        for n in range(1, 31)
    ]
    sections = {name: one.records() for name, one in store.sections(2).items()}
    store.put(20, {**sections, "statements": many})
    period = make_period(store, 2, 3)
    few, every = (make_report(period, rows_max=n).table("sql-elapsed") for n in (20, None))
    assert [row.mark for row in few.rows].count(RowMark.PLAIN) == 20
    (rest,) = [row for row in few.rows if row.mark is RowMark.REST]
    assert rest.cells[few.index("total_s")] == pytest.approx(sum(range(1, 11)))
    assert [row.mark for row in every.rows].count(RowMark.PLAIN) == 30
    assert RowMark.REST not in {row.mark for row in every.rows}
    for table in (few, every):
        ids = table.values("query_id")
        assert ids[:2] == ("30", "29")


def test_a_class_has_the_waits_and_the_average_of_its_counted_events(report: AwrReport) -> None:
    table = report.table("top-events")
    columns = [column.name for column in table.columns]
    events = [dict(zip(columns, row.cells, strict=True)) for row in table.rows]
    commits = [event for event in events if event["wait_class"] == "Commit"]
    counted = [event for event in commits if event["waits"] is not None]
    assert counted
    assert len(counted) < len(commits)  # the others were sampled
    row = row_of(report.table("wait-classes"), "Commit")
    waits = sum(float(str(event["waits"])) for event in counted)
    assert row["waits"] == waits
    seconds = sum(float(str(event["total_s"])) for event in counted)
    assert row["mean_ms"] == pytest.approx(1000 * seconds / waits)


def test_an_average_of_more_than_its_class_s_time_is_a_contradiction(report: AwrReport) -> None:
    table = report.table("wait-classes")
    assert contradictions_of(table) == ()
    place = table.index("mean_ms")
    (commit,) = [row for row in table.rows if row.cells[0] == "Commit"]
    wrong = replace(commit, cells=(*commit.cells[:place], 1e6, *commit.cells[place + 1 :]))
    rows = tuple(wrong if row is commit else row for row in table.rows)
    (said,) = contradictions_of(replace(table, rows=rows))
    assert said.startswith("Commit: ")


def test_every_statement_that_a_ranking_names_stands_as_a_whole(report: AwrReport) -> None:
    table = report.table("sql-text")
    named = {
        str(one)
        for ranking in ("sql-elapsed", "sql-reads", "sql-disk", "sql-wal")
        for one in report.table(ranking).values("query_id")
        if one
    }
    assert dict(zip(table.values("query_id"), table.values("query"), strict=True)) == {
        one: STATEMENTS[int(one)][0] for one in named
    }
    assert table.columns[table.index("query")].lines


def test_statements_of_our_own_are_not_ranked_and_a_note_counts_them() -> None:
    texts = {
        1: "select * from stock",
        2: f"select oid from pg_class {SIGNATURE}",
        3: 'select "public".pgflash_snapshot()',
    }
    store = Shelf(texts=texts)
    statements = [
        {"query_id": n, "calls": 1, "exec_time_ms": 1000.0 * n, "shared_blocks_read": n}
        for n in texts
    ]
    store.put(0, {"database": [{"datid": "5", "xact_commit": 0, "active_time": 0.0}]})
    database: Rows = [{"datid": "5", "xact_commit": 3, "active_time": 8000.0}]
    store.put(10, {"database": database, "statements": statements})
    made = make_report(make_period(store, 1, 2))
    for name, measure, rest in (
        ("sql-elapsed", "total_s", 5.0),
        ("sql-reads", "shared_blocks_read", 5),
    ):
        table = made.table(name)
        assert [row.cells[0] for row in table.rows if row.mark is RowMark.PLAIN] == [texts[1]]
        assert row_of(table, "all other statements")[measure] == rest
        assert "2 statements of pgflash's own (5.00 s) are among all others." in table.note


def test_the_last_range_of_a_histogram_has_no_end() -> None:
    store = busy_store()
    sections = {name: one.records() for name, one in store.sections(3).items()}
    last = {**sections["io_histogram"][0], "lower_us": 2.0**30, "upper_us": None, "calls": 1}
    store.put(30, {**sections, "io_histogram": [*sections["io_histogram"], last]})
    table = make_report(make_period(store, 1, 4)).table("read-latency")
    bounds = dict(zip(table.values("lower_us"), table.values("upper_us"), strict=True))
    assert bounds[2.0**30] is None
    assert bounds[8192.0] == 16384.0


def test_settings_of_the_session_that_took_the_snapshot_are_not_the_servers() -> None:
    store = busy_store()
    sections = {name: one.records() for name, one in store.sections(3).items()}
    own = [
        {"name": "jit", "setting": "off", "source": "session"},
        {"name": "config_file", "setting": "/etc/pg", "source": "override"},
        {"name": "work_mem", "setting": "8192", "unit": "kB", "source": "configuration file"},
    ]
    store.put(30, {**sections, "settings": [*sections["settings"], *own]})
    report = make_report(make_period(store, 3, 4))
    assert set(report.table("settings").values("name")) == {
        "max_wal_size",
        "shared_buffers",
        "work_mem",
    }
    changed = report.table("settings-changed")
    assert changed.values("name") == ("work_mem",)
    assert (changed.values("before"), changed.values("after")) == (("(default)",), ("8192",))


def test_segments_are_ranked_by_the_blocks_that_were_looked_up(report: AwrReport) -> None:
    table = report.table("segments-logical-reads")
    assert table.values("relation") == ("stock", "stock_pkey", "all others", "all")
    stock = row_of(table, "stock")
    assert (stock["looked_up"], stock["blocks_read"]) == (180_000, 20_000)
    assert stock["hit_share"] == pytest.approx(80 / 90)
    assert row_of(table, "all")["looked_up"] == 2 * (90_000 + 20_000 + 2_000)


def test_without_the_extension_logical_reads_are_those_of_the_client(report: AwrReport) -> None:
    rows: Rows = [
        {"relation": "t", "database": "app", "relkind": "r", "blocks_read": 3, "blocks_hit": 7}
    ]
    store = Shelf()
    store.put(0, {"slru": []})
    store.put(10, {"relations": rows})
    table = make_report(make_period(store, 1, 2)).table("segments-logical-reads")
    assert row_of(table, "t")["looked_up"] == 10


def test_statements_are_ranked_by_gets_and_by_calls(report: AwrReport) -> None:
    gets, calls = report.table("sql-gets"), report.table("sql-executions")
    read = STATEMENTS[77]
    first = row_of(gets, read[0])
    assert first["gets"] == 2 * read[1] * (90 + 13)
    assert first["per_call"] == 103
    assert row_of(calls, read[0])["calls"] == 2 * read[1]
    assert row_of(calls, read[0])["per_s"] == pytest.approx(2 * read[1] / 1200)
    assert row_of(calls, "all statements")["elapsed_s"] == pytest.approx(80.0)


def test_statements_are_ranked_by_the_time_of_reads_from_disk_and_by_blocks_from_flash(
    report: AwrReport,
) -> None:
    disk, flash = report.table("sql-disk"), report.table("sql-flash")
    text = STATEMENTS[77][0]
    calls, blocks, ms = (2 * one for one in READS[77]["disk"])
    first = row_of(disk, text)
    assert disk.values("query_id")[0] == "77"
    assert (first["disk_read_blocks"], first["disk_s"]) == (blocks, pytest.approx(ms / 1000))
    assert first["disk_ms"] == pytest.approx(ms / calls)
    # 27.2 s a period are all that clients waited for the disk: of these, 2.2 s are of others.
    assert first["share"] == pytest.approx(25 / 27.2)
    assert row_of(disk, "all statements")["disk_s"] == pytest.approx(54.4)
    served = row_of(flash, text)
    from_flash, from_disk = READS[77]["flash"][1], READS[77]["disk"][1]
    assert served["flash_read_blocks"] == 2 * from_flash
    assert served["flash_share"] == pytest.approx(from_flash / (from_flash + from_disk))
    assert served["calls"] == 2 * STATEMENTS[77][1]
    # Statement 78 read nothing from flash; the rest did.
    assert [row.mark for row in flash.rows] == [RowMark.PLAIN, RowMark.REST, RowMark.TOTAL]
    assert "I/O workers included" in disk.note


def test_the_disk_is_waited_for_by_few_statements_if_that_is_so(report: AwrReport) -> None:
    (waited,) = [one for one in report.findings if one.rule == "disk-reads"]
    assert (
        "one statement accounted for 92 % of the time in which statements read from disk: see SQL "
        "ordered by disk read time"
    ) in waited.evidence
    store = busy_store(intervals=1)
    sections = {name: one.records() for name, one in store.sections(2).items()}
    many = [{"query_id": n, "disk_read_time_ms": 1000.0} for n in range(1, 28)]
    store.put(20, {**sections, "statement_reads": many})
    again = make_report(make_period(store, 2, 3))
    assert not [
        clause
        for one in again.findings
        for clause in one.evidence
        if "in which statements read" in clause
    ]


def test_without_counts_of_statements_reads_the_report_says_why() -> None:
    store = busy_store(intervals=1)
    sections = {name: one.records() for name, one in store.sections(2).items()}
    settings: Rows = [{"name": "pgflash.track_statements", "setting": "none"}]
    untracked: dict[str, Rows] = {
        **sections,
        "settings": settings,
        "statement_reads": [{"calls": 0}],
    }
    old: dict[str, Rows] = {
        name: rows for name, rows in sections.items() if name != "statement_reads"
    }
    nameless: dict[str, Rows] = {**sections, "statement_reads": [{"disk_read_time_ms": 5.0}]}
    for minute, more in ((20, untracked), (30, old), (40, nameless)):
        store.put(minute, more)
    tables = [make_report(make_period(store, n, n + 1)).table("sql-disk") for n in (2, 3, 4)]
    assert tables[0].missing_reason == "The setting pgflash.track_statements is none."
    assert "from version 0.2 on" in tables[1].missing_reason
    assert "set compute_query_id = on" in tables[2].note
    assert row_of(tables[2], "all other statements")["disk_s"] == pytest.approx(0.005)


def test_cpu_by_statement_is_sampled_and_named_so(report: AwrReport) -> None:
    table = report.table("sql-cpu")
    row = row_of(table, STATEMENTS[77][0])
    # 6 of 600 looks in each of 20 minutes.
    assert row["cpu_s"] == pytest.approx(12.0)
    assert row["share"] == pytest.approx(1.0)
    assert row["error_s"] == pytest.approx(12.0 / (6 * 20) ** 0.5)
    assert row["per_call_ms"] == pytest.approx(6.0)
    assert row["database"] == "shop"
    assert table.columns[table.index("cpu_s")].source is Source.SAMPLED
    assert "not count CPU time by statement" in table.note


def test_a_commit_waits_for_the_class_commit_on_average(report: AwrReport) -> None:
    table = report.table("summary")
    (cell,) = [row.cells[1] for row in table.rows if row.cells[0] == "wait for a commit"]
    # Two intervals: 6 s of syncs and 5 s behind others, of 990 commits.
    assert isinstance(cell, Number)
    assert cell.value == pytest.approx(1000 * 11 / 990)
    assert (cell.unit, cell.source) == (Unit.MILLISECONDS, Source.SAMPLED)
