# SPDX-License-Identifier: PostgreSQL
"""Paper 003: which part of the write path to move to flash first, and what reads gain.

There are five loads, in the paper's own order, and two kinds of scans.  The figures are measured in
different places:

- a database's throughput is what PostgreSQL's processes read and wrote in data files and
  WAL, second by second in the server's own report, without the archiver's copies;
- a server's IOPS are counted by the devices, including the copies, and so is the throughput of
  scans: a session reports its reads only when its statement ends, all at once;
- response time is that of a batch at 40 % of the load, as a share of a batch's time with
  everything on the SAN.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pgflash.model.awr import AwrReport, Cell, Number, ReportTable, Source, Unit
from pgflash.model.sizes import MB
from pgflash_lab.model.exhibit import Chart, ChartForm, ChartSeries, Check, Exhibit, PaperPage
from pgflash_lab.model.paper import PaperExhibit, printed_number, read_paper
from pgflash_lab.model.run import Attempt, Run
from pgflash_lab.report.paper import checks, parts

PAPER = read_paper("003")

SAN, REDO, RECOVERY, BOTH, HOT = (
    "all-on-san",
    "redo-on-flash",
    "recovery-on-flash",
    "redo-and-recovery",
    "hot-tables-too",
)
#: Our approaches by the paper's columns.
WRITES = {"Test 1": SAN, "Test 3": REDO, "Test 2": RECOVERY, "Test 4": BOTH, "Test 5": HOT}
READS = {"Test 1": "reads-on-san", "Test 2": "reads-on-flash"}

#: The names of the tests in sentences.
_SHORT = {
    SAN: "all on the SAN",
    REDO: "redo on flash",
    RECOVERY: "recovery area on flash",
    BOTH: "both",
    HOT: "both and hot tables",
}
_BLOCK_BYTES = 8192

_WHY_OTHER = (
    "How much a move brings follows from the SAN's rate (here a limit of 40 MB/s), from how "
    "much is written besides the log, and from where the processors end: the paper's "
    "16 cores against the cores of this machine."
)
_WHY_WAIT = (
    "A process that waits for an emulated device sleeps, which the kernel books as idle; waiting "
    "is computed here from the sessions that were seen in a wait for I/O."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one test; None if nobody looked."""

    started_at: str
    duration_s: float
    #: Bytes and calls a second of data files (for bytes, also of WAL), counted by the server.
    bytes_peak: float | None = None
    bytes_mean: float | None = None
    calls_peak: float | None = None
    calls_mean: float | None = None
    #: Requests a second, counted by the devices.
    server_calls_peak: float | None = None
    server_calls_mean: float | None = None
    #: The same in bytes.
    server_bytes_peak: float | None = None
    server_bytes_mean: float | None = None
    #: Shares of the machine's processors: the peak of all programs, and the mean of the server and
    #: its load.
    cpu_peak: float | None = None
    cpu_mean: float | None = None
    iowait_peak: float | None = None
    iowait_mean: float | None = None
    #: Whether waiting was computed from sessions.
    iowait_modelled: bool = False
    generator: float | None = None
    #: Share of the clients' time spent waiting for the archiver.
    archiver_wait: float | None = None
    response_ms: float | None = None
    mean_response_ms: float = 0.0


_Value = Callable[[Outcome], float | None]


def build(run: Run, reports: Mapping[str, AwrReport]) -> PaperPage:
    """Return the page."""
    tests = {
        name: outcome_of(attempt, reports.get(name))
        for name, attempt in parts.middle_attempts(run).items()
    }
    exhibits = (
        _writes(run, tests),
        _improvements(run, tests, "writes-improvement", SAN, HOT, _WRITES_IMPROVED),
        _reads(run, tests),
        _improvements(
            run, tests, "reads-improvement", READS["Test 1"], READS["Test 2"], _READS_IMPROVED
        ),
    )
    return parts.page_of(PAPER, run, says=_says(tests), exhibits=exhibits)


# ---- the result of a test


def outcome_of(attempt: Attempt, report: AwrReport | None) -> Outcome:
    """Sum up one attempt."""
    sizes, calls = _by_server(report)
    requests, transferred = _by_devices(attempt)
    busy = [second.user + second.system for second in attempt.cpu_seconds]
    waiting = _waiting(attempt)
    capacity_s = attempt.cpu.cores * attempt.cpu.elapsed_s
    own_s = attempt.cpu.server_s + attempt.cpu.driver_s
    behind_s = attempt.facts.get("archiver_wait_s")
    return Outcome(
        started_at=attempt.started_at,
        duration_s=attempt.duration_s or attempt.measured_s,
        bytes_peak=_peak(sizes),
        bytes_mean=_mean(sizes),
        calls_peak=_peak(calls),
        calls_mean=_mean(calls),
        server_calls_peak=_peak(requests),
        server_calls_mean=_mean(requests),
        server_bytes_peak=_peak(transferred),
        server_bytes_mean=_mean(transferred),
        cpu_peak=_peak(busy),
        cpu_mean=own_s / capacity_s if capacity_s > 0 else None,
        iowait_peak=_peak(waiting),
        iowait_mean=_mean(waiting),
        iowait_modelled=any(one.blocked_from == "sessions" for one in attempt.host_seconds),
        generator=attempt.cpu.driver_s / capacity_s if capacity_s > 0 else None,
        archiver_wait=_over(behind_s, attempt.clients * (attempt.duration_s or attempt.measured_s)),
        response_ms=attempt.facts.get("response_at_40_percent_ms"),
        mean_response_ms=attempt.latency.mean_ms,
    )


def _by_server(report: AwrReport | None) -> tuple[list[float], list[float]]:
    """Return bytes (of data files and WAL) and calls (of data files) a second, over time."""
    table = parts.table_of(report, "throughput-over-time")
    if table is None:
        return [], []
    reads = [
        table.values(column.name)
        for column in table.columns
        if column.name.endswith("_reads_per_s")
    ]
    writes = table.values("writes_per_s")
    logged = table.values("wal_bytes_per_s")
    sizes, calls = [], []
    for place in range(len(table.rows)):
        cells = [*(column[place] for column in reads), writes[place]]
        done = sum(_float(cell) for cell in cells)
        blocks = _float(table.values("blocks_read_per_s")[place]) + _float(writes[place])
        calls.append(done)
        sizes.append(_BLOCK_BYTES * blocks + _float(logged[place]))
    return sizes, calls


def _by_devices(attempt: Attempt) -> tuple[list[float], list[float]]:
    """Return requests and bytes a second of all devices together, over time."""
    requests: dict[float, float] = {}
    transferred: dict[float, float] = {}
    for one in attempt.disk_seconds:
        if one.elapsed_s > 0:
            calls = (one.reads + one.writes) / one.elapsed_s
            size = (one.read_bytes + one.write_bytes) / one.elapsed_s
            requests[one.at_s] = requests.get(one.at_s, 0.0) + calls
            transferred[one.at_s] = transferred.get(one.at_s, 0.0) + size
    return list(requests.values()), list(transferred.values())


def _waiting(attempt: Attempt) -> list[float]:
    """Return the share of the processors that was idle because a process waited for I/O.

    The kernel counts this itself, except for emulated devices, where a wait is a plain sleep.  For
    these, each waiting session is taken to keep one processor waiting at most, and no more than are
    idle.
    """
    if not any(one.blocked_from == "sessions" for one in attempt.host_seconds):
        return [second.iowait for second in attempt.cpu_seconds]
    found = []
    for host in attempt.host_seconds:
        cpu = min(
            attempt.cpu_seconds, key=lambda second: abs(second.at_s - host.at_s), default=None
        )
        if cpu is not None:
            found.append(min(cpu.idle + cpu.iowait, host.blocked / attempt.cpu.cores))
    return found


def _float(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _peak(values: Sequence[float]) -> float | None:
    return max(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# ---- the write-intensive tests


def _writes(run: Run, tests: Mapping[str, Outcome]) -> Exhibit:
    """Return the matrix of five tests."""
    paper = PAPER.exhibit("writes")
    return parts.exhibit_of(
        PAPER,
        "writes",
        ours=_matrix(run, tests, WRITES, _WRITE_ROWS, "writes"),
        charts=_write_charts(paper, tests),
        checks=checks.checks(
            checks.same_order(
                "Duration",
                paper={_SHORT[name]: _minutes(paper, test) for test, name in WRITES.items()},
                ours={
                    _SHORT[name]: tests[name].duration_s
                    for name in WRITES.values()
                    if name in tests
                },
                sign=">",
            ),
            *_directions(paper, tests),
        ),
        reason=f"{_WHY_OTHER} {_WHY_WAIT}",
        missing=parts.why_missing(run, tests, *WRITES.values()),
    )


def _directions(paper: PaperExhibit, tests: Mapping[str, Outcome]) -> tuple[Check | None, ...]:
    """Compare the difference between the first and the last test."""
    columns, sides = ("Test 1", "Test 5"), (tests.get(SAN), tests.get(HOT))
    base_ms = sides[0].mean_response_ms if sides[0] else 0.0
    compared: tuple[tuple[str, str, _Value, str], ...] = (
        ("Throughput", "DB Throughput Avg.", lambda t: _over(t.bytes_mean, MB), "MB/s"),
        ("Server IOPS", "Server IOPS Avg.", lambda t: t.server_calls_mean, "a second"),
        ("CPU utilisation", "CPU Utilisation Avg.", lambda t: _percent(t.cpu_mean), "%"),
        ("I/O wait", "CPU I/O Wait Avg.", lambda t: _percent(t.iowait_mean), "%"),
        ("Generator load", "Data Generator CPU Load", lambda t: _percent(t.generator), "%"),
        ("Response time", "SQL Response Time", lambda t: _of(t.response_ms, base_ms), "%"),
    )
    return tuple(_direction(paper, columns, sides, *one) for one in compared)


def _direction(
    paper: PaperExhibit,
    columns: tuple[str, str],
    sides: tuple[Outcome | None, Outcome | None],
    what: str,
    row: str,
    value: _Value,
    unit: str,
) -> Check | None:
    """Compare how a figure changes from the first of two tests to the second."""
    before, after = sides
    return checks.same_direction(
        what,
        paper=(paper.number(row, columns[0]), paper.number(row, columns[1])),
        ours=(value(before) if before else None, value(after) if after else None),
        unit=unit,
    )


def _write_charts(paper: PaperExhibit, tests: Mapping[str, Outcome]) -> tuple[Chart, ...]:
    """Return charts of durations, as shares of each side's own first test."""
    first_s = tests[SAN].duration_s if SAN in tests else 0.0
    whole = _minutes(paper, "Test 1")
    return (
        Chart(
            form=ChartForm.BARS,
            title="Duration of the load",
            unit="share",
            labels=tuple(_SHORT[name][:1].upper() + _SHORT[name][1:] for name in WRITES.values()),
            series=(
                ChartSeries(
                    name="paper",
                    values=tuple(_minutes(paper, test) / whole for test in WRITES),
                    of_paper=True,
                ),
                ChartSeries(
                    name="here",
                    values=tuple(
                        tests[name].duration_s / first_s if name in tests and first_s else None
                        for name in WRITES.values()
                    ),
                ),
            ),
        ),
    )


# ---- the read-intensive tests


def _reads(run: Run, tests: Mapping[str, Outcome]) -> Exhibit:
    """Return the matrix of two tests."""
    paper = PAPER.exhibit("reads")
    columns = ("Test 1", "Test 2")
    sides = (tests.get(READS[columns[0]]), tests.get(READS[columns[1]]))
    compared: tuple[tuple[str, str, _Value, str], ...] = (
        ("Throughput", "DB Throughput Avg.", lambda t: _over(t.server_bytes_mean, MB), "MB/s"),
        ("Server IOPS", "Server IOPS Avg.", lambda t: t.server_calls_mean, "a second"),
        ("CPU utilisation", "CPU Utilisation Avg.", lambda t: _percent(t.cpu_mean), "%"),
        ("I/O wait", "CPU I/O Wait Peak", lambda t: _percent(t.iowait_peak), "%"),
    )
    return parts.exhibit_of(
        PAPER,
        "reads",
        ours=_matrix(run, tests, READS, _READ_ROWS, "reads"),
        checks=checks.checks(*(_direction(paper, columns, sides, *one) for one in compared)),
        reason=f"{_WHY_OTHER} {_WHY_WAIT}",
        missing=parts.why_missing(run, tests, *READS.values()),
    )


# ---- what the text calls improvements


def _ratio(of: _Value, before: Outcome, after: Outcome) -> float | None:
    first, second = of(before), of(after)
    return second / first if first and second else None


#: A row of the paper, and the ratio that it states in percent.
_WRITES_IMPROVED: dict[str, Callable[[Outcome, Outcome], float | None]] = {
    "elapsed run time": lambda a, b: a.duration_s / b.duration_s if b.duration_s else None,
    "DB I/O": lambda a, b: _ratio(lambda t: t.bytes_mean, a, b),
    "DB IOPS": lambda a, b: _ratio(lambda t: t.calls_mean, a, b),
    "CPU utilisation": lambda a, b: _ratio(lambda t: t.cpu_mean, a, b),
}
_READS_IMPROVED: dict[str, Callable[[Outcome, Outcome], float | None]] = {
    "peak DB I/O": lambda a, b: _ratio(lambda t: t.server_bytes_peak, a, b),
    "average DB I/O": lambda a, b: _ratio(lambda t: t.server_bytes_mean, a, b),
    "peak Server IOPS": lambda a, b: _ratio(lambda t: t.server_calls_peak, a, b),
    "average Server IOPS": lambda a, b: _ratio(lambda t: t.server_calls_mean, a, b),
}


def _improvements(
    run: Run,
    tests: Mapping[str, Outcome],
    table_id: str,
    before: str,
    after: str,
    rows: Mapping[str, Callable[[Outcome, Outcome], float | None]],
) -> Exhibit:
    """Return the ratios that the paper prints as percentages, and ours."""
    paper = PAPER.exhibit(table_id)
    missing = parts.why_missing(run, tests, before, after)
    ours: dict[str, float | None] = {}
    if not missing:
        ours = {name: value(tests[before], tests[after]) for name, value in rows.items()}
    return parts.exhibit_of(
        PAPER,
        table_id,
        ours=parts.figures_table(
            table_id,
            "Ratios",
            [("what", "What", Unit.TEXT), ("ratio", "Flash over SAN", Unit.RATIO)],
            [(name, value) for name, value in ours.items()],
            note="Of the run time: SAN over flash.",
        )
        if ours
        else None,
        checks=checks.checks(
            *(
                checks.within(
                    name[:1].upper() + name[1:],
                    paper=(paper.number(name, "Printed") or 0.0) / 100,
                    ours=value,
                    unit="times",
                )
                for name, value in ours.items()
            )
        ),
        reason=_WHY_OTHER,
        missing=missing,
    )


# ---- the matrices

_Cell = Callable[[Outcome, Outcome], Cell]


def _number(of: _Value, unit: Unit, source: Source = Source.EXACT) -> _Cell:
    def cell(test: Outcome, _first: Outcome) -> Cell:
        value = of(test)
        return None if value is None else Number(value=value, unit=unit, source=source)

    return cell


def _waited(of: _Value) -> _Cell:
    def cell(test: Outcome, first: Outcome) -> Cell:
        source = Source.MODELLED if test.iowait_modelled else Source.EXACT
        return _number(of, Unit.SHARE, source)(test, first)

    return cell


def _ended(test: Outcome, _first: Outcome) -> Cell:
    began = datetime.fromisoformat(test.started_at)
    return (began + timedelta(seconds=test.duration_s)).strftime("%H:%M:%S")


def _responded(test: Outcome, first: Outcome) -> Cell:
    share = _over(test.response_ms, first.mean_response_ms)
    return None if share is None else Number(value=share, unit=Unit.SHARE, source=Source.EXACT)


_SERVER_ROWS: dict[str, _Cell] = {
    "Server IOPS Peak": _number(lambda t: t.server_calls_peak, Unit.PER_SECOND),
    "Server IOPS Avg.": _number(lambda t: t.server_calls_mean, Unit.PER_SECOND),
    "CPU Utilisation Peak": _number(lambda t: t.cpu_peak, Unit.SHARE),
    "CPU Utilisation Avg.": _number(lambda t: t.cpu_mean, Unit.SHARE),
    "CPU I/O Wait Peak": _waited(lambda t: t.iowait_peak),
}
_WRITE_ROWS: dict[str, _Cell] = {
    "Test Start Time": lambda test, _: datetime.fromisoformat(test.started_at).strftime("%H:%M:%S"),
    "Test End Time": _ended,
    "Test Duration": _number(lambda t: t.duration_s, Unit.SECONDS),
    "DB Throughput Peak": _number(lambda t: t.bytes_peak, Unit.BYTES_PER_SECOND),
    "DB Throughput Avg.": _number(lambda t: t.bytes_mean, Unit.BYTES_PER_SECOND),
    "DB IOPS Peak": _number(lambda t: t.calls_peak, Unit.PER_SECOND),
    "DB IOPS Avg.": _number(lambda t: t.calls_mean, Unit.PER_SECOND),
    **_SERVER_ROWS,
    "CPU I/O Wait Avg.": _waited(lambda t: t.iowait_mean),
    "Data Generator CPU Load": _number(lambda t: t.generator, Unit.SHARE),
    "SQL Response Time": _responded,
    "Wait for the archiver": _number(lambda t: t.archiver_wait, Unit.SHARE),
}
_READ_ROWS: dict[str, _Cell] = {
    "DB Throughput Peak": _number(lambda t: t.server_bytes_peak, Unit.BYTES_PER_SECOND),
    "DB Throughput Avg.": _number(lambda t: t.server_bytes_mean, Unit.BYTES_PER_SECOND),
    **_SERVER_ROWS,
}


def _matrix(
    run: Run,
    tests: Mapping[str, Outcome],
    columns: Mapping[str, str],
    rows: Mapping[str, _Cell],
    table_id: str,
) -> ReportTable | None:
    """Return our figures in the rows and order of the paper."""
    measured = {test: tests[name] for test, name in columns.items() if name in tests}
    if not measured:
        return None
    titles = {one.name: one.title for one in run.approaches}
    first = next(iter(measured.values()))
    return parts.figures_table(
        table_id,
        "The same here",
        [
            ("value", "Tested value", Unit.TEXT),
            *((columns[test].replace("-", "_"), test, Unit.COUNT) for test in measured),
        ],
        [(name, *(cell(test, first) for test in measured.values())) for name, cell in rows.items()],
        source=None,
        note="; ".join(f"{test}: {titles[columns[test]]}" for test in measured)
        + ". Times of day are UTC. CPU peaks are those of the machine, whoever used it, means "
        "those of the server and its load. Response time is that of a batch at 40 % of the load, "
        "beside the mean batch of the first test; the wait for the archiver is a share of the "
        "clients' time.",
    )


def _says(tests: Mapping[str, Outcome]) -> list[str]:
    """Return the results in words."""
    said = []
    if SAN in tests and HOT in tests:
        first, last = tests[SAN].duration_s, tests[HOT].duration_s
        said.append(
            f"The load took {first:,.0f} s with everything on the SAN and {last:,.0f} s with the "
            f"write path and the hot tables on flash: {first / last:.1f} times as fast "
            f"(the paper: 53 and 8 minutes, 6.6 times)."
        )
    if REDO in tests and RECOVERY in tests:
        redo, recovery = tests[REDO].duration_s, tests[RECOVERY].duration_s
        more = "The recovery area" if recovery < redo else "The redo"
        said.append(
            f"{more} is the better one to move alone: {recovery:,.0f} s with the recovery area on "
            f"flash, {redo:,.0f} s with the redo (the paper found the same of the recovery area, "
            "against its author's expectation)."
            if recovery < redo
            else f"{more} is the better one to move alone here: {redo:,.0f} s, against "
            f"{recovery:,.0f} s with the recovery area, other than in the paper."
        )
    return said


def _minutes(paper: PaperExhibit, test: str) -> float:
    """Return a test's duration, printed as hours and minutes."""
    hours, minutes = paper.row("Test Duration")[paper.columns.index(test)].split(":")
    return 60 * (printed_number(hours) or 0.0) + (printed_number(minutes) or 0.0)


def _over(value: float | None, divisor: float) -> float | None:
    return value / divisor if value is not None and divisor else None


def _of(value: float | None, whole: float) -> float | None:
    return _percent(_over(value, whole))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
