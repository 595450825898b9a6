# SPDX-License-Identifier: PostgreSQL
"""Paper 002, figures 5 and 6: throughput and latency of the devices, second by second."""

from collections.abc import Mapping, Sequence

from pgflash.model.awr import Cell, Unit
from pgflash.model.sizes import GB, MB
from pgflash_lab.model.exhibit import Chart, ChartForm, ChartSeries, Exhibit
from pgflash_lab.model.run import DiskSecond
from pgflash_lab.model.summary import BASELINE
from pgflash_lab.report.paper import checks, parts
from pgflash_lab.report.paper.p002_sides import ALL, PAPER, RATIO_IS_SET, Sides


def over_time(sides: Sides, figure: str, approach: str) -> Exhibit:
    """Return what one side's device did while the queries ran."""
    middle = sides.middles.get(approach)
    role = "array" if approach == BASELINE else "flash"
    seconds = [one for one in middle.disk_seconds if one.role == role] if middle else []
    missing = sides.missing(approach, reported=False)
    if not missing and not any(one.reads for one in seconds):
        missing = "Not measured: this run has no figures of its devices second by second."
    if missing:
        return parts.exhibit_of(PAPER, figure, missing=missing)
    means = {name: _device_means(sides, name) for name in (BASELINE, ALL)}
    said = {
        name: (
            PAPER.exhibit(of).number("Throughput, GB/s", column),
            PAPER.exhibit(of).number("Latency, ms", column),
        )
        for name, of, column in ((BASELINE, "fig-5", "Hard disks"), (ALL, "fig-6", "Flash"))
    }
    own = means[approach]
    return parts.exhibit_of(
        PAPER,
        figure,
        ours=parts.figures_table(
            f"ours-{figure}",
            f"The {role} while the queries ran",
            (("what", "", Unit.TEXT), ("mean", "Mean", Unit.COUNT), ("most", "Most", Unit.COUNT)),
            [
                ["Throughput, MB/s", *_of(own, "throughput")],
                ["Latency, ms", *_of(own, "latency")],
            ],
        ),
        charts=_device_charts(seconds, role),
        checks=checks.checks(
            checks.same_direction(
                "Throughput from disks to flash",
                paper=(_mb(said[BASELINE][0]), _mb(said[ALL][0])),
                ours=(_mean(means[BASELINE], "throughput"), _mean(means[ALL], "throughput")),
                unit="MB/s",
            ),
            checks.within(
                "Times the throughput on flash",
                paper=_over(said[ALL][0], said[BASELINE][0]),
                ours=_over(_mean(means[ALL], "throughput"), _mean(means[BASELINE], "throughput")),
            ),
            checks.same_direction(
                "Latency from disks to flash",
                paper=(said[BASELINE][1], said[ALL][1]),
                ours=(_mean(means[BASELINE], "latency"), _mean(means[ALL], "latency")),
                unit="ms",
            ),
        ),
        reason=RATIO_IS_SET,
    )


def _device_means(sides: Sides, approach: str) -> dict[str, tuple[float, float]]:
    """Return mean and maximum of throughput (MB/s) and of a request's latency (ms)."""
    middle = sides.middles.get(approach)
    role = "array" if approach == BASELINE else "flash"
    seconds = [one for one in middle.disk_seconds if one.role == role] if middle else []
    busy = [one for one in seconds if one.reads]
    elapsed_s = sum(one.elapsed_s for one in seconds)
    reads = sum(one.reads for one in busy)
    if not reads or elapsed_s <= 0:
        return {}
    return {
        "throughput": (
            sum(_bytes(one) for one in seconds) / elapsed_s / MB,
            max(_throughput(one) for one in seconds),
        ),
        "latency": (
            sum(one.reads * one.read_ms for one in busy) / reads,
            max(one.read_ms for one in busy),
        ),
    }


def _bytes(one: DiskSecond) -> int:
    return one.read_bytes + one.write_bytes


def _throughput(one: DiskSecond) -> float:
    return _bytes(one) / max(one.elapsed_s, 1e-9) / MB


def _of(means: Mapping[str, tuple[float, float]], name: str) -> list[Cell]:
    return list(means.get(name, (None, None)))


def _mean(means: Mapping[str, tuple[float, float]], name: str) -> float | None:
    return means[name][0] if name in means else None


def _mb(gigabytes: float | None) -> float | None:
    return None if gigabytes is None else gigabytes * GB / MB


def _over(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None


def _device_charts(seconds: Sequence[DiskSecond], role: str) -> tuple[Chart, ...]:
    at_s = tuple(one.at_s for one in seconds)
    every_s = sum(one.elapsed_s for one in seconds) / len(seconds) if seconds else 1.0

    def chart(title: str, unit: str, values: Sequence[float | None]) -> Chart:
        return Chart(
            form=ChartForm.LINES,
            title=title,
            unit=unit,
            series=(ChartSeries(name=role, values=tuple(values)),),
            at_s=at_s,
            every_s=every_s,
        )

    return (
        chart("Throughput", "MB/s", [_throughput(one) for one in seconds]),
        chart("Latency of a read", "ms", [one.read_ms if one.reads else None for one in seconds]),
    )
