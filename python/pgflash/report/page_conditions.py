# SPDX-License-Identifier: PostgreSQL
"""The report page's last part: the conditions, the devices, and the paper."""

from collections.abc import Sequence

from pgflash.model.paper import paper_figures
from pgflash.model.run import Approach, Run
from pgflash.model.sizes import megabytes
from pgflash.model.summary import Summary
from pgflash.report import charts, colours
from pgflash.report.page_parts import Section, Table, marked


def cpu(run: Run, summaries: Sequence[Summary]) -> Section:
    """Return how each approach used the machine's processors."""
    rows = [
        (
            marked(s),
            f"{s.server_cpu_ms_per_transaction:.2f}",
            f"{s.server_cpu_user_ms_per_transaction:.2f}",
            f"{s.server_cpu_system_ms_per_transaction:.2f}",
            f"{s.server_cpu_share:.0%}",
            f"{s.foreign_cpu_share:.0%}",
        )
        for s in summaries
    ]
    head = (
        "approach",
        "server CPU / transaction, ms",
        "user",
        "system",
        "server's share of the machine",
        "foreign share",
    )
    pictures, means = [], []
    for summary in summaries:
        seconds = summary.middle.cpu_seconds
        if not seconds:
            continue
        columns = {
            "User": [x.user for x in seconds],
            "System": [x.system for x in seconds],
            "I/O wait": [x.iowait for x in seconds],
            "Idle": [x.idle for x in seconds],
        }
        areas = [
            (x.at_s, part, values[i])
            for i, x in enumerate(seconds)
            for part, values in columns.items()
        ]
        pictures.append(
            (
                summary.approach.title,
                charts.areas(areas, colours=colours.CPU, title=f"CPU, {summary.approach.title}"),
            )
        )
        means.append(
            (
                summary.approach.title,
                *(f"{sum(values) / len(values):.0%}" for values in columns.values()),
            )
        )
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
        charts=pictures,
        tables=[("", Table(head=head, rows=rows))],
        folded=[("Means of the pictures", Table(head=("approach", *colours.CPU), rows=means))]
        if means
        else [],
        legend=[(colour, name) for name, colour in colours.CPU.items()] if pictures else [],
        side_by_side=True,
    )


def repeats(run: Run) -> Section:
    """Return each attempt's throughput, in the order in which they ran."""
    titles = {approach.name: approach.title for approach in run.approaches}
    rows = [
        (
            str(order),
            titles.get(a.approach, a.approach),
            str(a.repeat),
            f"{a.tpm:,.0f}",
            f"{a.nopm:,.0f}",
            f"{a.nopm_counted:,.0f}",
            f"{a.latency.p95_ms:,.1f}",
            f"{a.server_cpu_ms_per_transaction:.2f}",
            f"{a.cpu.foreign_share:.0%}",
            megabytes(a.wal_bytes),
            a.polluted + (" (repeated)" if a.superseded else "") if a.polluted else "",
        )
        for order, a in enumerate(run.attempts, start=1)
    ]
    head = (
        "order",
        "approach",
        "repeat",
        "TPM",
        "NOPM",
        "NOPM counted",
        "p95, ms",
        "server CPU, ms",
        "foreign CPU",
        "WAL, MB",
        "polluted",
    )
    return Section(
        id="repeats",
        title="Every attempt",
        says=[
            "In the order in which they were made. NOPM is counted twice: from the driver's log, "
            "and from the order numbers in the database. Each attempt began with the same restored "
            "database; the consistency conditions of the workload were checked after each."
        ],
        tables=[("", Table(head=head, rows=rows, words=frozenset({1, 10})))],
    )


def paper() -> Section:
    """Return the paper's figures, as ratios."""
    rows = [
        (f.title, f"{f.commits:,}", f"{f.ratio:.2f}", f.printed, f.note) for f in paper_figures()
    ]
    head = ("approach", "commits in the hour", "ratio", "printed", "note")
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
        tables=[("", Table(head=head, rows=rows, words=frozenset({0, 3, 4})))],
    )


def devices(run: Run, summaries: Sequence[Summary]) -> Section:
    """Return what the approaches ran on, and the devices' work."""
    rows = [(d.role, d.title, "emulated" if d.emulated else "real", d.summary) for d in run.devices]
    facts = [
        (
            d.title,
            Table(head=("setting", "value"), rows=list(d.facts.items()), words=frozenset({0, 1})),
        )
        for d in run.devices
        if d.facts
    ]
    where = [
        (a.title, a.data, a.wal, "on flash" if a.cache else "none", _what_else(a))
        for a in run.approaches
    ]
    words = frozenset({0, 1, 2, 3, 4})
    return Section(
        id="devices",
        title="Devices and approaches",
        tables=[
            ("", Table(head=("role", "device", "kind", "what it is"), rows=rows, words=words)),
            (
                "",
                Table(
                    head=("approach", "data on", "WAL on", "flash cache", "what else"),
                    rows=where,
                    words=words,
                ),
            ),
        ],
        folded=[*_device_work(summaries), *facts],
    )


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


def _device_work(summaries: Sequence[Summary]) -> list[tuple[str, Table]]:
    """Return the emulated devices' counters, for comparison with PostgreSQL's own figures."""
    rows = []
    for summary in summaries:
        for name, counted in summary.middle.devices.items():
            if not any(counted.get(f"{one}_count") for one in ("read", "write", "log_sync")):
                continue
            rows.append(
                (
                    summary.approach.title,
                    f"{name} (emulated)",
                    f"{counted.get('utilisation', 0):.0%}",
                    *(
                        cell
                        for one in ("read", "write", "log_sync")
                        for cell in (
                            f"{counted.get(f'{one}_count', 0):,.0f}",
                            f"{counted.get(f'{one}_mean_ms', 0):.2f}",
                        )
                    ),
                )
            )
    head = ("approach", "device", "busy", "reads", "mean, ms", "writes", "mean, ms")
    table = Table(head=(*head, "WAL syncs", "mean, ms"), rows=rows, words=frozenset({0, 1}))
    return [("What the emulated devices counted while measuring", table)] if rows else []


def settings(run: Run) -> Section:
    """Return the settings of the run."""
    about = {
        "run": run.id,
        "scenario": f"{run.scenario}, preset {run.preset}" if run.preset else run.scenario,
        "started": run.started_at,
        "ended": run.ended_at or "not finished",
        "PostgreSQL": run.postgres_version,
        "pgflash": run.pgflash_version,
        "database": f"{megabytes(run.database_bytes)} MB",
        **run.machine,
    }
    words = frozenset({0, 1})
    return Section(
        id="settings",
        title="What was run, on what",
        says=["The same settings for every approach; only the placement differs."],
        tables=[
            ("", Table(head=("what", "value"), rows=list(about.items()), words=words)),
            (
                "",
                Table(head=("parameter", "value"), rows=list(run.parameters.items()), words=words),
            ),
        ],
        folded=[
            (
                "PostgreSQL settings",
                Table(head=("setting", "value"), rows=list(run.settings.items()), words=words),
            )
        ],
    )
