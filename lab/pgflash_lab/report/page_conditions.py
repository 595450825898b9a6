# SPDX-License-Identifier: PostgreSQL
"""The last part of a run's report: the conditions, the devices, and the paper."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgflash.analyze.grid import figure, row, text
from pgflash.model.awr import Column, ReportTable, Row, Unit
from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.words import size
from pgflash.report.drawing import Figure
from pgflash.report.shown import Shown, show
from pgflash_lab.model.paper import paper_figures
from pgflash_lab.model.run import Approach, Run
from pgflash_lab.model.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page: sentences, then tables with their charts."""

    id: str
    title: str
    says: Sequence[str] = ()
    #: Drawings of it that open the page.
    opening: Sequence[Figure] = ()
    tables: Sequence[Shown] = ()
    #: Text and relative address of pages that belong to this one.
    links: Sequence[tuple[str, str]] = ()

    def drawn(self) -> Iterator[Figure]:
        """Yield every drawing."""
        yield from self.opening
        for one in self.tables:
            yield from one.figures


def marked(summary: Summary) -> str:
    """Return the approach's title, with a mark if its figures are polluted."""
    return f"{summary.approach.title} (polluted)" if summary.polluted else summary.approach.title


def without_empty_columns(table: ReportTable) -> ReportTable:
    """Return the table without those columns, after the first, in which nothing is known."""
    kept = [
        place
        for place in range(len(table.columns))
        if place == 0 or any(one.cells[place] is not None for one in table.rows)
    ]
    return dataclasses.replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(
            dataclasses.replace(one, cells=tuple(one.cells[place] for place in kept))
            for one in table.rows
        ),
    )


def cpu(run: Run, summaries: Sequence[Summary]) -> Section:
    """Return how each approach used the machine's processors."""
    used = ReportTable(
        id="cpu-used",
        title="Who used the processors",
        columns=(
            text("approach", "Approach"),
            figure("server", "Server CPU", Unit.MILLISECONDS_PER_TRANSACTION),
            figure("user", "User", Unit.MILLISECONDS_PER_TRANSACTION),
            figure("system", "System", Unit.MILLISECONDS_PER_TRANSACTION),
            figure("share", "Server's share of the machine", Unit.SHARE),
            figure("foreign", "Foreign share", Unit.SHARE),
        ),
        rows=tuple(
            row(
                marked(s),
                s.server_cpu_ms_per_transaction,
                s.server_cpu_user_ms_per_transaction,
                s.server_cpu_system_ms_per_transaction,
                s.server_cpu_share,
                s.foreign_cpu_share,
            )
            for s in summaries
        ),
    )
    parts = {"User": "user", "System": "system", "I/O wait": "iowait", "Idle": "idle"}
    shown = [s for s in summaries if s.middle.cpu_seconds]
    means = ReportTable(
        id="cpu-means",
        title="Means over the seconds of measuring",
        columns=(
            text("approach", "Approach"),
            *(figure(name, title, Unit.SHARE) for title, name in parts.items()),
        ),
        rows=tuple(
            row(s.approach.title, *(_mean(s, name) for name in parts.values())) for s in shown
        ),
    )
    charts = [
        Chart(
            form=ChartForm.STACKED,
            title=s.approach.title,
            unit="share",
            narrow=True,
            at_s=tuple(x.at_s for x in s.middle.cpu_seconds),
            series=tuple(
                ChartSeries(
                    name=title, values=tuple(getattr(x, name) for x in s.middle.cpu_seconds)
                )
                for title, name in parts.items()
                if title != "Idle"  # what is left above the areas
            ),
        )
        for s in shown
    ]
    return Section(
        id="cpu",
        title="Processors",
        says=[
            "The server's CPU is that of all its processes, dead ones included. Foreign is what "
            "was neither the server's nor the load driver's.",
            *(
                ["An emulated device makes no I/O wait: its delays are sleeps, and show as idle."]
                if run.emulated_devices
                else []
            ),
        ],
        tables=[*([show(means, charts)] if charts else []), show(used)],
    )


def _mean(summary: Summary, name: str) -> float:
    seconds = summary.middle.cpu_seconds
    return sum(float(getattr(x, name)) for x in seconds) / len(seconds)


def repeats(run: Run) -> Section:
    """Return each attempt's throughput, in the order in which they ran."""
    titles = {approach.name: approach.title for approach in run.approaches}
    table = ReportTable(
        id="attempts",
        title="Attempts",
        columns=(
            figure("order", "Order", Unit.COUNT),
            text("approach", "Approach"),
            figure("repeat", "Repeat", Unit.COUNT),
            figure("tpm", "TPM", Unit.COUNT),
            figure("nopm", "NOPM", Unit.COUNT),
            figure("nopm_counted", "NOPM counted", Unit.COUNT),
            figure("p95_ms", "p95", Unit.MILLISECONDS),
            figure("server_cpu_ms", "Server CPU", Unit.MILLISECONDS_PER_TRANSACTION),
            figure("foreign", "Foreign CPU", Unit.SHARE),
            figure("wal", "WAL", Unit.BYTES),
            text("polluted", "Polluted"),
        ),
        rows=tuple(
            row(
                order,
                titles.get(a.approach, a.approach),
                a.repeat,
                a.tpm,
                a.nopm,
                a.nopm_counted,
                a.latency.p95_ms,
                a.server_cpu_ms_per_transaction,
                a.cpu.foreign_share,
                a.wal_bytes,
                a.polluted + (" (repeated)" if a.superseded else "") if a.polluted else None,
            )
            for order, a in enumerate(run.attempts, start=1)
        ),
    )
    return Section(
        id="repeats",
        title="Every attempt",
        says=[
            "In the order in which they were made. NOPM is counted twice: from the driver's log, "
            "and from the order numbers in the database. Each attempt began with the same restored "
            "database; the consistency conditions of the workload were checked after each."
        ],
        tables=[show(without_empty_columns(table))],
    )


def paper() -> Section:
    """Return the paper's figures, as ratios."""
    table = ReportTable(
        id="paper-ratios",
        title="The paper's own figures",
        columns=(
            text("approach", "Approach"),
            figure("commits", "Commits in the hour", Unit.COUNT),
            figure("ratio", "Ratio", Unit.RATIO),
            text("printed", "Printed"),
            text("note", "Note"),
        ),
        rows=tuple(row(f.title, f.commits, f.ratio, f.printed, f.note) for f in paper_figures()),
    )
    return Section(
        id="paper",
        title="What the paper's factors really are",
        says=[
            "The paper beside which the bars stand measured 24 short-stroked 15K disks against 4 "
            "SSDs, with 100 users for an hour. Its headline percentages do not agree with its own "
            "tables. The ratios here are commits of the hour (log file sync waits in its AWR "
            "extracts) over the baseline's: 136 %, 302 % and 538 % are percent of the baseline, "
            "and only 63 % is an increase.",
        ],
        tables=[show(table)],
    )


def devices(run: Run, summaries: Sequence[Summary]) -> Section:
    """Return what the approaches ran on, and the devices' work."""
    return Section(
        id="devices",
        title="Devices and approaches",
        tables=[
            show(
                _words(
                    "device-list",
                    "Devices",
                    ("Role", "Device", "Kind", "What it is"),
                    (
                        (d.role, d.title, "emulated" if d.emulated else "real", d.summary)
                        for d in run.devices
                    ),
                )
            ),
            show(
                _words(
                    "approaches",
                    "Approaches",
                    ("Approach", "Data on", "WAL on", "Flash cache", "What else"),
                    (
                        (a.title, a.data, a.wal, "on flash" if a.cache else "none", _what_else(a))
                        for a in run.approaches
                    ),
                )
            ),
            *(show(one, folded=True) for one in _device_work(summaries)),
            *(
                show(_settings(f"device-{number}", d.title, d.facts), folded=True)
                for number, d in enumerate(run.devices, start=1)
                if d.facts
            ),
        ],
    )


def _words(
    table_id: str, title: str, head: Sequence[str], rows: Iterable[Sequence[str]]
) -> ReportTable:
    """Return a table of texts."""
    return ReportTable(
        id=table_id,
        title=title,
        columns=tuple(text(name, name) for name in head),
        rows=tuple(row(*one) for one in rows),
    )


def _settings(table_id: str, title: str, values: Mapping[str, str]) -> ReportTable:
    return _words(table_id, title, ("Name", "Value"), values.items())


def _what_else(approach: Approach) -> str:
    """Say briefly what else an approach changes."""
    parts = [f"{name} {value}" for name, value in approach.changes.items()]
    if approach.objects:
        parts.append(f"on flash: {', '.join(approach.objects)}")
    if approach.keep:
        parts.append(f"kept: {', '.join(approach.keep)}")
    if approach.temp:
        parts.append(f"temporary files on {approach.temp}")
    if approach.archive:
        parts.append(f"archive on {approach.archive}")
    if approach.cache_files > 1:
        parts.append(f"{approach.cache_files} cache files")
    return "; ".join(parts)


def _device_work(summaries: Sequence[Summary]) -> list[ReportTable]:
    """Return the emulated devices' counters, for comparison with PostgreSQL's own figures.

    "Busy" is by the model: the mean spindle's time, or the largest share of a limit that was used.
    """
    calls = {"read": "Reads", "write": "Writes", "log_sync": "WAL syncs"}
    columns: list[Column] = [
        text("approach", "Approach"),
        text("device", "Device"),
        figure("busy", "Busy", Unit.SHARE),
    ]
    for name, title in calls.items():
        columns.append(figure(name, title, Unit.COUNT))
        columns.append(figure(f"{name}_ms", "Mean", Unit.MILLISECONDS))
    rows: list[Row] = []
    for summary in summaries:
        for name, counted in summary.middle.devices.items():
            if any(counted.get(f"{one}_count") for one in calls):
                cells = [
                    counted.get(f"{one}_{what}", 0)
                    for one in calls
                    for what in ("count", "mean_ms")
                ]
                busy = counted.get("utilisation", 0)
                rows.append(row(summary.approach.title, f"{name} (emulated)", busy, *cells))
    table = ReportTable(
        id="device-work",
        title="What the emulated devices counted while measuring",
        columns=tuple(columns),
        rows=tuple(rows),
    )
    return [table] if rows else []


def settings(run: Run) -> Section:
    """Return the settings of the run."""
    about = {
        "run": run.id,
        "scenario": f"{run.scenario}, preset {run.preset}" if run.preset else run.scenario,
        "started": run.started_at,
        "ended": run.ended_at or "not finished",
        "PostgreSQL": run.postgres_version,
        "pgflash": run.pgflash_version,
        "database": size(run.database_bytes),
        **run.machine,
    }
    return Section(
        id="settings",
        title="What was run, on what",
        says=["The same settings for every approach; only the placement differs."],
        tables=[
            show(_settings("about", "The run and its machine", about)),
            show(_settings("parameters", "Parameters of the scenario", run.parameters)),
            show(_settings("postgresql", "PostgreSQL settings", run.settings), folded=True),
        ],
    )
