# SPDX-License-Identifier: PostgreSQL
"""The contents of the overview: a row with a small chart for each of several servers.

The chart is DB time in the last minutes, as average active sessions.  It is drawn here, so
the page is complete without scripts.  All charts have the same scale, so they can be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec
from markupsafe import Markup

from pgflash.live.fleet import Member, View
from pgflash.live.lead import moment
from pgflash.live.ring import Ring
from pgflash.model.fleet import LEADING, FleetMember
from pgflash.model.words import NOTHING, figure, percent, sentence, size
from pgflash.report import colours, svg

#: How long the page is reused: it is the same for all viewers.
KEPT_S = 2.0
CHART_S = 300
#: The time of one value of a chart.
STEP_S = 5

#: The beginning of each step, in seconds, and the average active sessions in it.
Steps = Mapping[int, float]


class _Point(msgspec.Struct):
    """The part of a sample that a chart needs."""

    at: str
    elapsed_s: float
    aas: dict[str, float] | None


_read_point = msgspec.json.Decoder(_Point).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A server's row."""

    key: str
    name: str
    address: str
    #: "" if it has no page.
    href: str
    chart: Markup
    sessions: str
    role: str
    #: Since when it has been the leader.
    since: str
    state: str
    timeline: str
    lag: str
    mode: str
    hit_ratio: str
    warmth: str
    problem: str


def overview(view: View) -> dict[str, object]:
    """Return the contents of the page; this takes milliseconds: not for the event loop."""
    steps = [steps_of(one.ring) if _is_live(one) else {} for one in view.members]
    highest = max((value for one in steps for value in one.values()), default=0.0)
    rows = [
        _row(view, member, known, of_one, highest)
        for member, known, of_one in zip(view.members, view.fleet.members, steps, strict=True)
    ]
    fleet = view.fleet
    return {
        "place": "Overview",
        "rows": rows,
        "note": view.note,
        "origin": f"{fleet.name}, as Patroni at {fleet.url} lists it." if fleet.url else "",
        "follows": view.leader is not None,
    }


def steps_of(ring: Ring) -> Steps:
    """Return a server's average active sessions in the last minutes, by its own clock."""
    messages, _gap = ring.after(max(ring.newest - 2 * CHART_S, 0))
    points = [_read_point(one.data) for one in messages if one.kind == "sample"]
    sums: dict[int, tuple[float, float]] = {}
    for one in points:
        if one.aas is not None:
            step = int(datetime.fromisoformat(one.at).timestamp() // STEP_S) * STEP_S
            worked, elapsed = sums.get(step, (0.0, 0.0))
            sums[step] = (
                worked + sum(one.aas.values()) * one.elapsed_s, elapsed + one.elapsed_s
            )  # fmt: skip
    newest = max(sums, default=0)
    return {
        step: worked / elapsed
        for step, (worked, elapsed) in sorted(sums.items())
        if newest - step < CHART_S and elapsed > 0
    }


def chart(name: str, steps: Steps, highest: float) -> Markup:
    """Return the chart of a server's last minutes as SVG."""
    if not steps:
        return Markup("")
    newest = max(steps)
    begins = range(newest - CHART_S + STEP_S, newest + STEP_S, STEP_S)
    series = svg.Series(
        name="Average active sessions",
        colour=colours.FAINT,
        pattern=0,
        values=[steps.get(begin) for begin in begins],
    )
    return svg.small(
        [(begin, begin + STEP_S) for begin in begins],
        series,
        highest=highest,
        title=f"Average active sessions of {name} in the last {CHART_S // 60} minutes, "
        f"at most {figure(max(steps.values()))}",
    )


def _is_live(member: Member) -> bool:
    """Return whether a server answers: otherwise its samples do not show its present load."""
    collector = member.collector
    return collector is not None and member.gone_at is None and collector.status.state == "live"


def _row(view: View, member: Member, known: FleetMember, steps: Steps, highest: float) -> Row:
    leads = known.role in LEADING and known.name == view.lead.leader and view.is_cluster
    lead = view.lead
    since = ""
    if leads and lead.since is not None:
        since = f"since {'' if lead.is_exact else 'before '}{moment(lead.since, view.at)}"
    has_page = member.collector is not None and member.gone_at is None
    return Row(
        key=member.key,
        name=known.name,
        address=known.address if known.address != known.name else "",
        href=f"/server/{member.key}/" if has_page else "",
        chart=chart(known.name, steps, highest),
        sessions=figure(steps[max(steps)]) if steps else NOTHING,
        role=known.role.replace("_", " ") or NOTHING,
        since=since,
        state=known.state,
        timeline=NOTHING if known.timeline is None else str(known.timeline),
        lag=NOTHING if known.lag_bytes is None else size(known.lag_bytes),
        mode=known.mode or NOTHING,
        hit_ratio=percent(known.hit_ratio),
        warmth=percent(known.warmth),
        problem=f"{sentence(known.problem.removesuffix('.'))}." if known.problem else "",
    )
