# SPDX-License-Identifier: PostgreSQL
"""Paper 001's advice on the cache's size, on several cards, and on what is kept.

Every approach with a cache is a row: its size relative to shared_buffers, its number of files, what
was kept, and its gain.  The paper recommends 4 to 10 times the buffer cache.
"""

import re

from pgflash.model.awr import Unit
from pgflash.model.exhibit import Chart, ChartForm, ChartSeries, Check, Exhibit
from pgflash.model.paper import Paper
from pgflash.model.run import Run
from pgflash.model.sizes import read_size
from pgflash.model.summary import Summary, summarize
from pgflash.report.paper import checks, parts

_BLOCK_BYTES = 8192
#: If a larger cache adds less than this share of throughput, the gain counts as small.
_HARDLY = 0.1


def sizes_exhibit(paper: Paper, run: Run) -> Exhibit:
    """Return the exhibit of all approaches with a cache."""
    every = summarize(run)
    base = next((one for one in every if not one.approach.cache), None)
    cached = sorted(
        (one for one in every if one.approach.cache), key=lambda one: _times(run, one) or 0.0
    )
    rows = [
        (
            one.approach.title,
            one.middle.cache.size_bytes if one.middle.cache else None,
            _times(run, one),
            one.approach.cache_files,
            ", ".join(one.approach.keep) or None,
            one.hit_ratio,
            one.tpm / 60,
            one.tpm / base.tpm if base and base.tpm > 0 else None,
        )
        for one in cached
    ]
    plain = [one for one in cached if one.approach.cache_files == 1 and not one.approach.keep]
    return parts.exhibit_of(
        paper,
        "size",
        ours=parts.figures_table(
            "sizes",
            "Every approach with a cache",
            [
                ("approach", "Approach", Unit.TEXT),
                ("size", "Size", Unit.BYTES),
                ("times", "Times shared_buffers", Unit.RATIO),
                ("files", "Files", Unit.COUNT),
                ("keep", "Kept", Unit.TEXT),
                ("hit_ratio", "Hits", Unit.SHARE),
                ("tps", "TPS", Unit.PER_SECOND),
                ("ratio", "Times without", Unit.RATIO),
            ],
            rows,
        )
        if rows
        else None,
        charts=_charts(run, base, plain),
        checks=checks.checks(_recommended(paper, run, plain)),
        reason="Where the load's working set is small beside shared_buffers, a small cache is "
        "enough; where it is large, no size near these is.",
        missing="" if len(plain) > 1 else "Not measured: this run has no caches of several sizes.",
    )


def _charts(run: Run, base: Summary | None, plain: list[Summary]) -> tuple[Chart, ...]:
    if base is None or base.tpm <= 0 or len(plain) < 2:
        return ()
    labels = [f"{_times(run, one) or 0:.3g} times shared_buffers" for one in plain]
    hits = tuple(one.hit_ratio for one in plain)
    return (
        Chart(
            form=ChartForm.BARS,
            title="Throughput",
            unit="times that without a cache",
            labels=tuple(labels),
            series=(ChartSeries(name="here", values=tuple(one.tpm / base.tpm for one in plain)),),
        ),
        Chart(
            form=ChartForm.BARS,
            title="Hits in the flash cache",
            unit="share",
            labels=tuple(labels),
            series=(ChartSeries(name="here", values=hits),),
        ),
    )


def _recommended(paper: Paper, run: Run, plain: list[Summary]) -> Check | None:
    """Check that the recommended sizes reach nearly all of the possible gain."""
    data = paper.table("size")
    low, high = (
        data.number(row, "Times the buffer cache")
        for row in ("Recommended, from", "Recommended, up to")
    )
    if low is None or high is None:
        return None
    sized = [(times, one.tpm) for one in plain if (times := _times(run, one)) is not None]
    inside = [(times, tpm) for times, tpm in sized if low * 0.95 <= times <= high * 1.05]
    below = [(times, tpm) for times, tpm in sized if times < low * 0.95]
    if not inside or not below:
        return None
    best = max(tpm for _, tpm in sized)
    times, reached = max(inside, key=lambda pair: pair[1])
    small_times, small = max(below, key=lambda pair: pair[1])
    figures = (
        f"{small / best:.0%} of the best throughput at {small_times:.3g} times shared_buffers, "
        f"{reached / best:.0%} at {times:.3g} times"
    )
    return checks.is_true(
        reached >= best * (1 - _HARDLY) and reached > small,
        yes=f"The recommended {low:g} to {high:g} times bring more than less would: {figures}.",
        no=f"The recommended {low:g} to {high:g} times do not bring more than less does: "
        f"{figures}.",
    )


def _times(run: Run, one: Summary) -> float | None:
    """Return the cache's size as a multiple of shared_buffers."""
    changed = one.approach.changes.get("shared_buffers")
    text = changed or run.parameters.get("shared_buffers") or run.settings.get("shared_buffers", "")
    buffers = memory_bytes(text)
    if buffers is None or one.middle.cache is None or not one.middle.cache.size_bytes:
        return None
    return one.middle.cache.size_bytes / buffers


def memory_bytes(text: str) -> int | None:
    """Return the bytes of a setting such as "640MB" (blocks without a unit); None if invalid."""
    if re.fullmatch(r"\s*[0-9]{1,15}\s*", text):
        return int(text) * _BLOCK_BYTES or None
    try:
        return read_size(text) or None
    except ValueError:
        return None
