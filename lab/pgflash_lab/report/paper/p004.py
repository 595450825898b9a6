# SPDX-License-Identifier: PostgreSQL
"""Paper 004: where flash helps, and where it makes no difference.

There are two identical tables, one on each device, under one kind of access at a time.  The gain of
a kind is the factor by which one operation is shorter on flash; both sides' clients ran at the same
time, each waiting only for its own device.
"""

import statistics
from collections.abc import Mapping, Sequence

from pgflash.model.awr import AwrReport, Cell, Number, ReportTable, Source, Unit
from pgflash_lab.model.exhibit import Chart, ChartForm, ChartSeries, Check, Exhibit, PaperPage
from pgflash_lab.model.paper import PaperExhibit, read_paper
from pgflash_lab.model.run import Device, Run
from pgflash_lab.model.summary import counted_attempts
from pgflash_lab.report.paper import checks, parts

PAPER = read_paper("004")

READ, WRITE, REDO = "random-read", "random-write", "redo-on-flash"
SCAN, FILL = "sequential-read", "sequential-write"
#: The kinds of access, and their names in sentences.
KINDS = {
    READ: "random reads",
    WRITE: "random writes",
    REDO: "random writes, redo on flash",
    SCAN: "sequential reads",
    FILL: "sequential writes",
}
_SEQUENTIAL = (SCAN, FILL)
_LOG = "redo writes"

#: The tablespaces of the two devices in our reports, by the paper's names.
SPACES = {"TSP_HDD": "pg_default", "TSP_SSD": "on_flash"}

_BLOCK_BYTES = 8192
_OTHER_USERS = (
    "In the paper each user worked on both tables at a modest rate; here each table has clients "
    "of its own that never pause, so the rates differ as the devices do, and so do the queues "
    "of a disk that holds the log, too."
)


def build(run: Run, reports: Mapping[str, AwrReport]) -> PaperPage:
    """Return the page."""
    gains = gains_of(run, reports)
    exhibits = (
        _gains(run, gains),
        _tablespaces(run, reports, "random-reads", READ),
        _tablespaces(run, reports, "random-writes", WRITE),
        _scans(run, reports),
        _redo(run, reports),
        _devices(run),
        _cells(),
    )
    return parts.page_of(PAPER, run, says=_says(gains), exhibits=exhibits)


# ---- gains


def gains_of(run: Run, reports: Mapping[str, AwrReport]) -> dict[str, tuple[float, float]]:
    """Return the milliseconds of one operation on the array and on flash, by kind of access."""
    found = {}
    for name, kind in KINDS.items():
        pairs = [
            (sides["array"], sides["flash"])
            for attempt in counted_attempts(run, name)
            if {"array", "flash"}
            <= (sides := {one.transaction: one.mean_ms for one in attempt.by_transaction}).keys()
        ]
        if pairs:
            found[kind] = (
                statistics.median(array for array, _ in pairs),
                statistics.median(flash for _, flash in pairs),
            )
    redo = [redo_write_ms(reports.get(name)) for name in (WRITE, REDO)]
    if redo[0] is not None and redo[1] is not None:
        found[_LOG] = (redo[0], redo[1])
    return found


def redo_write_ms(report: AwrReport | None) -> float | None:
    """Return the mean time of writing and syncing the log."""
    table = parts.table_of(report, "wal")
    syncs = parts.number_of(table, "WAL syncs", "total")
    times = [parts.number_of(table, f"WAL {what} time", "total") for what in ("write", "sync")]
    if not syncs or times[1] is None:
        return None
    return 1000 * sum(time or 0.0 for time in times) / syncs


def _gains(run: Run, gains: Mapping[str, tuple[float, float]]) -> Exhibit:
    """Return the gain of each kind of access, beside that in the paper's tables."""
    paper = _paper_gains()
    ours = {kind: array / flash for kind, (array, flash) in gains.items() if flash > 0}
    # The log's device is not a kind of access to a table.
    of_tables = {kind: gain for kind, gain in ours.items() if kind not in (_LOG, KINDS[REDO])}
    return Exhibit(
        id="gains",
        label="What the paper comes to",
        title="How many times shorter one operation is on flash",
        paper=parts.figures_table(
            "paper-gains",
            "Gains in the paper's tables",
            [("kind", "Access", Unit.TEXT), ("gain", "Gain", Unit.RATIO)],
            list(paper.items()),
            note="Random reads: milliseconds a read. Random writes: writes a second (what they "
            "read gained 9.4 times). Sequential reads: MB a second. Redo: its write time.",
        ),
        ours=parts.figures_table(
            "gains",
            "Mean time of one operation",
            [
                ("kind", "Access", Unit.TEXT),
                ("array_ms", "On the array", Unit.MILLISECONDS),
                ("flash_ms", "On flash", Unit.MILLISECONDS),
                ("gain", "Gain", Unit.RATIO),
            ],
            [(kind, *gains[kind], ours.get(kind)) for kind in gains],
        )
        if gains
        else None,
        charts=(_gains_chart(paper, ours),) if ours else (),
        checks=_gain_checks(paper, ours, of_tables),
        reason="How far the two lie apart follows from the devices that were chosen.",
        missing=parts.why_missing(run, [one.name for one in run.approaches], READ, SCAN, FILL),
    )


def _gain_checks(
    paper: Mapping[str, float], ours: Mapping[str, float], of_tables: Mapping[str, float]
) -> tuple[Check, ...]:
    """Compare the largest and the smallest gain."""
    if not {KINDS[name] for name in (READ, SCAN, FILL)} <= set(of_tables):
        return ()
    most, least = KINDS[READ], min(of_tables, key=lambda kind: of_tables[kind])
    scans = KINDS[SCAN]
    both = (
        f"{paper[scans]:.2f} against {paper[most]:.2f} times in the paper, "
        f"{ours[scans]:.2f} against {ours[most]:.2f} here"
    )
    least_here = f"{least}, {of_tables[least]:.2f} times"
    return checks.checks(
        checks.same_first(
            "What gains most",
            paper=max(paper, key=lambda kind: paper[kind]),
            ours=max(ours, key=lambda kind: ours[kind]),
        ),
        checks.is_true(
            ours[scans] < ours[most],
            yes=f"Sequential reads gain less than random ones in both: {both}.",
            no=f"Sequential reads gain no less than random ones: {both}.",
        ),
        checks.is_true(
            least in [KINDS[name] for name in _SEQUENTIAL],
            yes=f"The least gain is a sequential one, as the paper expects: {least_here}.",
            no=f"The least gain is no sequential one, other than the paper expects: {least_here}.",
        ),
    )


def _gains_chart(paper: Mapping[str, float], ours: Mapping[str, float]) -> Chart:
    """Return the gains as bars with numbers, since the range is wide."""
    labels = list(dict.fromkeys([*paper, *ours]))
    return Chart(
        form=ChartForm.BARS,
        title="Gain from flash",
        unit="times",
        labels=tuple(label.capitalize() for label in labels),
        series=(
            ChartSeries(
                name="paper", values=tuple(paper.get(one) for one in labels), of_paper=True
            ),
            ChartSeries(name="here", values=tuple(ours.get(one) for one in labels)),
        ),
    )


def _paper_gains() -> dict[str, float]:
    """Return the gains that follow from the paper's tables."""
    found: dict[str, float] = {}
    times = PAPER.exhibit("random-reads").numbers("Av Rd(ms)")
    found[KINDS[READ]] = times["TSP_HDD"] / times["TSP_SSD"]
    writes = PAPER.exhibit("random-writes").numbers("Writes")
    found[KINDS[WRITE]] = writes["TSP_SSD"] / writes["TSP_HDD"]
    rates = PAPER.exhibit("table-8-3").numbers("Data Per Second, MB")
    found[KINDS[SCAN]] = rates["SSD"] / rates["HDD"]
    redo = PAPER.exhibit("table-8-4")
    found[_LOG] = _printed(redo, "redo write time", "HDD") / _printed(
        redo, "redo write time", "SSD"
    )
    return found


def _printed(table: PaperExhibit, row: str, side: str, what: str = "Total") -> float:
    return table.number(row, f"{side}: {what}") or 0.0


# ---- the paper's tables


def _tablespaces(
    run: Run, reports: Mapping[str, AwrReport], table_id: str, approach: str
) -> Exhibit:
    """Return I/O by tablespace of one random load."""
    paper = PAPER.exhibit(table_id)
    table = parts.table_of(reports.get(approach), "io-tablespaces")
    times = paper.numbers("Av Rd(ms)")
    ours_ms = tuple(parts.number_of(table, space, "read_ms") for space in SPACES.values())
    blocks = parts.number_of(table, SPACES["TSP_SSD"], "blocks_per_read")
    return parts.exhibit_of(
        PAPER,
        table_id,
        ours=parts.cut(table) if table is not None else None,
        checks=checks.checks(
            checks.same_direction(
                "The mean read",
                paper=(times["TSP_HDD"], times["TSP_SSD"]),
                ours=(ours_ms[0], ours_ms[1]),
                unit="ms",
            ),
            checks.within("A read of the disk", paper=times["TSP_HDD"], ours=ours_ms[0], unit="ms"),
            checks.within("Blocks of a read", paper=1.0, ours=blocks, unit="blocks", factor=1.1),
            checks.within(
                "What flash makes of a read",
                paper=times["TSP_HDD"] / times["TSP_SSD"],
                ours=ours_ms[0] / ours_ms[1] if ours_ms[0] and ours_ms[1] else None,
                unit="times as fast",
            ),
        ),
        reason=_OTHER_USERS,
        missing=parts.why_missing(run, reports, approach),
    )


def _scans(run: Run, reports: Mapping[str, AwrReport]) -> Exhibit:
    """Return table 8-3: the amount and speed of scans."""
    paper = PAPER.exhibit("table-8-3")
    rates = paper.numbers("Data Per Second, MB")
    rows = [
        _scanned(side, reports.get(SCAN), space)
        for side, space in zip(("HDD", "SSD"), SPACES.values(), strict=True)
    ]
    ours = [row for row in rows if row is not None]
    by_side = {str(row[0]): float(row[3]) / 2**20 for row in ours}
    gain = by_side["SSD"] / by_side["HDD"] if len(by_side) == 2 else None
    return parts.exhibit_of(
        PAPER,
        "table-8-3",
        ours=parts.figures_table(
            "scans",
            "Reads of the tables' files",
            [
                ("on", "Data files on", Unit.TEXT),
                ("read_bytes", "Reads: data", Unit.BYTES),
                ("reads_per_s", "Requests per second", Unit.PER_SECOND),
                ("bytes_per_s", "Data per second", Unit.BYTES_PER_SECOND),
            ],
            ours,
        )
        if ours
        else None,
        checks=checks.checks(
            checks.same_direction(
                "Data per second",
                paper=(rates["HDD"], rates["SSD"]),
                ours=(by_side.get("HDD"), by_side.get("SSD")),
                unit="MB/s",
            ),
            checks.within(
                "What flash makes of a scan",
                paper=rates["SSD"] / rates["HDD"],
                ours=gain,
                unit="times as fast",
            ),
        ),
        reason="The paper's SSD read hardly faster than its disk, less than a third of what such "
        "a drive could; something else held it.",
        missing=parts.why_missing(run, reports, SCAN),
    )


def _scanned(
    side: str, report: AwrReport | None, space: str
) -> tuple[str, float, float, float] | None:
    """Return bytes, requests and bytes a second of one tablespace's reads."""
    table = parts.table_of(report, "io-tablespaces")
    reads, per_s, blocks = (
        parts.number_of(table, space, column)
        for column in ("reads", "reads_per_s", "blocks_per_read")
    )
    if reads is None or per_s is None or blocks is None:
        return None
    size = _BLOCK_BYTES * blocks
    return side, reads * size, per_s, per_s * size


#: The paper's statistics and ours; a write's time is that of writing and syncing.
_STATISTICS = {
    "redo blocks written": "WAL blocks written",
    "redo entries": "WAL records",
    "redo size": "WAL size",
    "redo wastage": "WAL wastage",
    "redo writes": "WAL writes",
    "redo syncs": "WAL syncs",
}
_TIMES = ("WAL write time", "WAL sync time")
_RATES = ("total", "per_s", "per_transaction")


def _redo(run: Run, reports: Mapping[str, AwrReport]) -> Exhibit:
    """Return table 8-4: redo statistics with the log on either device."""
    paper = PAPER.exhibit("table-8-4")
    tables = {side: parts.table_of(reports.get(name), "wal") for side, name in _LOGS.items()}
    times = {side: redo_write_ms(reports.get(name)) for side, name in _LOGS.items()}

    def each(row: str, side: str) -> float:
        return _printed(paper, row, side) / _printed(paper, "redo writes", side)

    return parts.exhibit_of(
        PAPER,
        "table-8-4",
        ours=_redo_table(tables),
        checks=checks.checks(
            checks.same_direction(
                "The time of one redo write (in the paper's own unit)",
                paper=(each("redo write time", "HDD"), each("redo write time", "SSD")),
                ours=(times["HDD"], times["SSD"]),
            ),
            checks.within(
                "What flash makes of it",
                paper=each("redo write time", "HDD") / each("redo write time", "SSD"),
                ours=times["HDD"] / times["SSD"] if times["HDD"] and times["SSD"] else None,
                unit="times as fast",
            ),
            checks.same_direction(
                "The redo of a transaction",
                paper=(
                    _printed(paper, "redo size", "HDD", "per Trans"),
                    _printed(paper, "redo size", "SSD", "per Trans"),
                ),
                ours=(
                    parts.number_of(tables["HDD"], "WAL size", "per_transaction"),
                    parts.number_of(tables["SSD"], "WAL size", "per_transaction"),
                ),
                unit="bytes",
            ),
        ),
        reason="Here the clients of the faster table commit as fast as the log lets them, so with "
        "the log on flash there are more transactions, and fewer first changes of a page, which "
        "PostgreSQL logs as a whole page.",
        missing=parts.why_missing(run, reports, WRITE, REDO),
    )


_LOGS = {"HDD": WRITE, "SSD": REDO}


def _redo_table(tables: Mapping[str, ReportTable | None]) -> ReportTable | None:
    """Return our statistics, three columns for each device."""
    if not all(tables.values()):
        return None
    rows: list[Sequence[Cell]] = []
    for name, own in _STATISTICS.items():
        cells = [parts.cell_of(table, own, rate) for table in tables.values() for rate in _RATES]
        if any(cell is not None for cell in cells):
            rows.append((name, *cells))
    rows.append(
        (
            "redo write time",
            *(_summed(table, rate) for table in tables.values() for rate in _RATES),
        )
    )
    return parts.figures_table(
        "redo",
        "WAL (redo) statistics",
        [
            ("name", "Statistic", Unit.TEXT),
            *(
                (f"{side.lower()}_{rate}", f"{side}: {rate.replace('_', ' ')}", Unit.COUNT)
                for side in tables
                for rate in _RATES
            ),
        ],
        rows,
        source=None,
        note="Time is that of writing and syncing.",
    )


def _summed(table: ReportTable | None, rate: str) -> Cell:
    """Return the sum of the two times, with its unit."""
    found = [
        cell for name in _TIMES if isinstance(cell := parts.cell_of(table, name, rate), Number)
    ]
    if not found:
        return None
    return Number(
        value=sum(cell.value for cell in found), unit=found[0].unit, source=found[0].source
    )


# ---- devices


def _devices(run: Run) -> Exhibit:
    """Return table 8-2: the devices that were measured."""
    paper = PAPER.exhibit("table-8-2")
    by_role = {device.role: device for device in run.devices}
    disk = by_role.get("array")
    theirs = paper.row("Samsung HD753LJ")
    columns = paper.columns
    return parts.exhibit_of(
        PAPER,
        "table-8-2",
        ours=parts.figures_table(
            "devices",
            "Devices",
            [
                ("device", "Device", Unit.TEXT),
                ("what", "What it is", Unit.TEXT),
                ("servers", "Spindles or channels", Unit.COUNT),
                ("rpm", "Rotational speed", Unit.COUNT),
                ("read_ms", "Random read", Unit.MILLISECONDS),
                ("bytes_per_s", "Transfer", Unit.BYTES_PER_SECOND),
                ("cache_bytes", "Write cache", Unit.BYTES),
            ],
            [_facts(device) for device in run.devices],
            source=Source.MODELLED if run.emulated_devices else Source.EXACT,
            note="An emulated device is a model: these are its profile's figures, without queueing."
            if run.emulated_devices
            else "",
        ),
        checks=checks.checks(
            checks.within(
                "Revolutions of the disk a minute",
                paper=float(theirs[columns.index("Rotational Speed")]),
                ours=_rpm(disk) if disk else None,
                factor=1.05,
            ),
            checks.within(
                "The disk's cache",
                paper=float(theirs[columns.index("Cache Size (MB)")]),
                ours=_fact(disk, "cache_bytes", 2**20) if disk else None,
                unit="MB",
                factor=1.5,
            ),
        ),
        reason="The devices are a setting of the run.",
        missing="" if run.devices else "The run does not say what it ran on.",
    )


def _cells() -> Exhibit:
    """Return table 8-1, which has no figure that could be measured."""
    return parts.exhibit_of(
        PAPER,
        "table-8-1",
        missing="Nothing to compare: a drive that is emulated, or looked at from outside, shows "
        "neither its cells nor their wear.",
    )


def _facts(device: Device) -> Sequence[Cell]:
    """Return a device's row; a real one has fewer facts."""
    positions = [_fact(device, f"read_position_{end}_ns", 1e6) for end in ("min", "max")]
    rotation = _fact(device, "rotation_max_ns", 1e6)
    read_ms = None
    if positions[0] is not None and positions[1] is not None and rotation is not None:
        read_ms = (positions[0] + positions[1] + rotation) / 2
    servers = _fact(device, "servers")
    each = _fact(device, "bandwidth_bytes_s")
    limit = _fact(device, "limit_bytes_s") or None
    whole = servers * each if servers is not None and each is not None else None
    return (
        device.title,
        device.summary,
        servers,
        _rpm(device),
        read_ms,
        min(whole, limit) if whole is not None and limit is not None else whole,
        _fact(device, "cache_bytes"),
    )


def _rpm(device: Device) -> float | None:
    rotation_ms = _fact(device, "rotation_max_ns", 1e6)
    return round(60_000 / rotation_ms) if rotation_ms else None


def _fact(device: Device, name: str, divisor: float = 1.0) -> float | None:
    text = device.facts.get(name, "")
    return float(text) / divisor if text.replace(".", "", 1).isdigit() else None


def _says(gains: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the results in words."""
    ratios = {kind: array / flash for kind, (array, flash) in gains.items() if flash > 0}
    if not ratios:
        return []
    ranked = sorted(ratios, key=lambda kind: -ratios[kind])
    said = ", ".join(f"{kind} {ratios[kind]:.1f}" for kind in ranked)
    return [f"How many times shorter an operation is on flash: {said}."]
