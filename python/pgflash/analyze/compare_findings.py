# SPDX-License-Identifier: PostgreSQL
"""What changed between two periods, in sentences: first what the load did, then why."""

from pgflash.analyze.event_words import event_in_words
from pgflash.model.awr import AwrReport, Finding, PeriodHead, Severity, plain
from pgflash.model.words import duration, figure, listed, percent, sentence, times

#: Rates and times that change by less than this share count as the same.
SAME = 0.05
#: A wait class whose share of DB time changes by this much is named.
SHARE_MOVED = 0.05
#: An event below this share in both periods is not mentioned.
EVENT_SHARE_MIN = 0.05


def find_changes(first: AwrReport, second: AwrReport) -> tuple[Finding, ...]:
    """Return what changed, the most important first."""
    found = [
        *_different_servers(first.head, second.head),
        *_throughput(first, second),
        *_cost(first, second),
        *_classes(first, second),
        *_events(first, second),
    ]
    if not found:
        found.append(
            Finding(
                rule="the-same",
                severity=Severity.GOOD,
                sentence="The periods hardly differ: rates, DB time and its classes are within "
                f"{percent(SAME)} of each other.",
                table="load-profile",
            )
        )
    return tuple(found)


def _different_servers(first: PeriodHead, second: PeriodHead) -> list[Finding]:
    differing = []
    for what, one, other in (
        ("version", first.server_version, second.server_version),
        ("processors", first.cores, second.cores),
        ("memory", first.memory_bytes, second.memory_bytes),
        ("pgflash", first.extension_version or "none", second.extension_version or "none"),
    ):
        if one != other and one is not None and other is not None:
            differing.append(f"{what} ({one}, then {other})")
    if not differing:
        return []
    return [
        Finding(
            rule="different-servers",
            severity=Severity.WARNING,
            sentence=f"The servers differ in {listed(differing)}.",
        )
    ]


def _throughput(first: AwrReport, second: AwrReport) -> list[Finding]:
    before = _profile(first, "transactions", "per_s")
    after = _profile(second, "transactions", "per_s")
    if not before or not after or abs(after / before - 1) < SAME:
        return []
    rose = after > before
    return [
        Finding(
            rule="throughput",
            severity=Severity.GOOD if rose else Severity.NOTE,
            sentence=f"The server did {figure(after)} transactions a second, "
            f"{times(after / before)} the {figure(before)} of the first period.",
            evidence=(f"{'+' if rose else '-'}{percent(abs(after / before - 1))}",),
            table="load-profile",
        )
    ]


def _cost(first: AwrReport, second: AwrReport) -> list[Finding]:
    found = []
    for name, words in (("DB time", "DB time"), ("DB CPU", "CPU time")):
        before = _profile(first, name, "per_transaction")
        after = _profile(second, name, "per_transaction")
        if not before or not after or abs(after / before - 1) < SAME:
            continue
        better = after < before
        found.append(
            Finding(
                rule="cost-of-a-transaction" if name == "DB time" else "cpu-of-a-transaction",
                severity=Severity.GOOD if better else Severity.WARNING,
                sentence=f"A transaction took {duration(after / 1000)} of {words}, "
                f"{'down' if better else 'up'} from {duration(before / 1000)}.",
                evidence=(f"{times(after / before)} as much",),
                table="load-profile",
            )
        )
    return found


def _classes(first: AwrReport, second: AwrReport) -> list[Finding]:
    before = _shares(first, "wait-classes", "wait_class")
    after = _shares(second, "wait-classes", "wait_class")
    moved = [(name, before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}]
    moved = [one for one in moved if abs(one[2] - one[1]) >= SHARE_MOVED]
    if not moved:
        return []
    moved.sort(key=lambda one: (-abs(one[2] - one[1]), one[0]))
    said = [f"{name} from {percent(one)} to {percent(other)}" for name, one, other in moved[:3]]
    return [
        Finding(
            rule="classes-moved",
            severity=Severity.NOTE,
            sentence=f"Shares of DB time moved: {listed(said)}.",
            table="wait-classes",
        )
    ]


def _events(first: AwrReport, second: AwrReport) -> list[Finding]:
    """Name the events that appeared, disappeared, or took a different time."""
    before, after = _shares(first, "top-events", "event"), _shares(second, "top-events", "event")
    mean_before, mean_after = _means(first), _means(second)
    found = []
    for name in {**before, **after}:
        one, other = before.get(name, 0.0), after.get(name, 0.0)
        if max(one, other) < EVENT_SHARE_MIN:
            continue
        ms = (mean_before.get(name), mean_after.get(name))
        if name not in before or name not in after:
            came = name not in before
            text = f"{'new' if came else 'gone'}: {event_in_words(name)}"
            found.append((one, other, "event-new" if came else "event-gone", text))
        elif ms[0] and ms[1] and abs(ms[1] / ms[0] - 1) >= 2 * SAME:
            down = ms[1] < ms[0]
            text = (
                f"{event_in_words(name)} took {duration(ms[1] / 1000)} on average, "
                f"{'down' if down else 'up'} from "
                f"{duration(ms[0] / 1000)}"
            )
            found.append((one, other, "event-faster" if down else "event-slower", text))
    found.sort(key=lambda seen: (-max(seen[0], seen[1]), seen[3]))
    severity = {"event-faster": Severity.GOOD, "event-slower": Severity.WARNING}
    return [
        Finding(
            rule=rule,
            severity=severity.get(rule, Severity.NOTE),
            sentence=f"{sentence(text)}.",
            evidence=(
                f"{percent(one)} of DB time in the first period, {percent(other)} in the second",
            ),
            table="top-events",
        )
        for one, other, rule, text in found[:5]
    ]


def _profile(report: AwrReport, name: str, column: str) -> float | None:
    table = report.table("load-profile")
    for row in table.rows:
        if row.cells[0] == name:
            value = plain(row.cells[table.index(column)])
            return float(value) if isinstance(value, (int, float)) else None
    return None


def _shares(report: AwrReport, table_id: str, key: str) -> dict[str, float]:
    return _column(report, table_id, key, "share")


def _means(report: AwrReport) -> dict[str, float]:
    return _column(report, "top-events", "event", "mean_ms")


def _column(report: AwrReport, table_id: str, key: str, column: str) -> dict[str, float]:
    """Return a column's numbers of the plain rows, by the rows' keys."""
    table = report.table(table_id)
    found = {}
    for row in table.rows:
        value = plain(row.cells[table.index(column)]) if not row.mark else None
        if isinstance(value, (int, float)):
            found[str(row.cells[table.index(key)])] = float(value)
    return found
