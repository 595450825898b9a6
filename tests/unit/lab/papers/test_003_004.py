# SPDX-License-Identifier: PostgreSQL
"""The pages of papers 003 and 004: which verdicts follow from which runs."""

import dataclasses
from collections.abc import Mapping

import pytest

from pgflash.model.awr import AwrReport, Number, Source, Unit
from pgflash_lab.model.exhibit import Exhibit, PaperPage, Verdict
from pgflash_lab.model.paper import printed_number, read_paper
from pgflash_lab.model.run import Approach, Attempt, CpuSecond, Device, DiskSecond, HostSecond, Run
from pgflash_lab.report.paper import build_paper, render_paper_text
from pgflash_lab.report.paper.load import FIGURES
from support.reports import column, moments, report, table
from support.runs import BASELINE, attempt, latency, run_of

WRITES = ("all-on-san", "redo-on-flash", "recovery-on-flash", "redo-and-recovery", "hot-tables-too")
READS = ("reads-on-san", "reads-on-flash")
#: The paper's durations, in minutes.
MINUTES = dict(zip(WRITES, (53, 44, 15, 13, 8), strict=True))


def approach(name: str) -> Approach:
    return Approach(name=name, title=name.replace("-", " ").capitalize())


def run_with(approaches: list[str], attempts: list[Attempt], *devices: Device) -> Run:
    changes: dict[str, object] = {"approaches": tuple(map(approach, approaches))}
    if devices:
        changes["devices"] = devices
    return run_of(*attempts, **changes)


# ---- 003


def load_attempt(name: str, *, duration_s: float, blocked_from: str = "sessions") -> Attempt:
    """Return a load of that duration: the faster, the busier processors and devices."""
    rate = 1000 / duration_s
    return dataclasses.replace(
        attempt(BASELINE, tpm=60 * rate),
        approach=name,
        duration_s=duration_s,
        cpu_seconds=tuple(
            CpuSecond(at_s=i, user=rate / 200, system=0.0, iowait=0.0, idle=1 - rate / 200)
            for i in range(2)
        ),
        host_seconds=tuple(
            HostSecond(
                at_s=i,
                runnable=1,
                blocked=int(duration_s / 20),
                blocked_from=blocked_from,
                context_switches_per_s=0.0,
                interrupts_per_s=0.0,
                in_bytes_per_s=0.0,
                out_bytes_per_s=0.0,
            )
            for i in range(2)
        ),
        disk_seconds=tuple(
            DiskSecond(
                at_s=float(i),
                elapsed_s=1.0,
                role=role,
                reads=round(rate * factor),
                read_bytes=round(rate * factor) * 8192,
                writes=0,
                write_bytes=0,
                read_ms=1.0,
                write_ms=0.0,
            )
            for i, factor in enumerate((10, 30))
            for role in ("array", "flash")
        ),
        latency=latency(count=100, mean_ms=duration_s),
        facts={"response_at_40_percent_ms": 1.1 * duration_s},
        cpu=dataclasses.replace(attempt(BASELINE, tpm=60).cpu, elapsed_s=duration_s, driver_s=10.0),
    )


def load_report(*, rate: float) -> AwrReport:
    """Return a report that read and logged that many blocks a second, then three times as many."""
    rows = [
        (at, 2.0, factor * rate, factor * rate * 8192, factor * rate / 2, factor * rate / 2, 0.0)
        for at, factor in zip(moments(2), (1, 3), strict=True)
    ]
    return report(
        table(
            "throughput-over-time",
            [
                column("at", Unit.TIME),
                column("elapsed_s", Unit.SECONDS),
                column("blocks_read_per_s", Unit.PER_SECOND),
                column("wal_bytes_per_s", Unit.BYTES_PER_SECOND),
                column("disk_reads_per_s", Unit.PER_SECOND),
                column("flash_reads_per_s", Unit.PER_SECOND),
                column("writes_per_s", Unit.PER_SECOND),
            ],
            *rows,
        )
    )


def page_003(durations_s: Mapping[str, float]) -> PaperPage:
    names = [*WRITES, *READS]
    attempts = [load_attempt(name, duration_s=s) for name, s in durations_s.items()]
    reports = {name: load_report(rate=10_000 / s) for name, s in durations_s.items()}
    page = build_paper("003", run_with(names, attempts), reports)
    assert page is not None
    return page


def as_in_the_paper() -> dict[str, float]:
    return {**MINUTES, READS[0]: 40.0, READS[1]: 5.0}


def check_that(exhibit: Exhibit, says: str) -> bool:
    return next(check.holds for check in exhibit.checks if says in check.says)


def test_a_run_as_the_papers_agrees_with_it() -> None:
    page = page_003(as_in_the_paper())
    assert page.exhibit("writes").verdict is Verdict.AGREES
    assert page.exhibit("reads").verdict is Verdict.AGREES
    assert "6.62 times as fast" in page.sentences[0]
    assert "The recovery area is the better one" in page.sentences[1]


def test_another_order_of_the_moves_is_said() -> None:
    durations = as_in_the_paper()
    durations["redo-on-flash"], durations["recovery-on-flash"] = 15.0, 44.0
    page = page_003(durations)
    exhibit = page.exhibit("writes")
    assert exhibit.verdict is Verdict.PARTLY
    assert not check_that(exhibit, "Duration")
    assert "other than in the paper" in page.sentences[1]


def test_a_run_that_is_not_complete_says_what_is_missing() -> None:
    durations = as_in_the_paper()
    del durations["hot-tables-too"]
    exhibit = page_003(durations).exhibit("writes")
    assert exhibit.verdict is Verdict.NOT_SHOWN
    assert "Hot tables too" in exhibit.sentence


@pytest.mark.parametrize("name", ["writes-improvement", "reads-improvement"])
def test_a_note_on_ratios_is_about_rows_that_are_there(name: str) -> None:
    ours = page_003(as_in_the_paper()).exhibit(name).ours
    assert ours is not None
    rows = map(str, ours.values("what"))
    assert ("run time" in ours.note) is any("run time" in row for row in rows)


@pytest.mark.parametrize(
    ("table", "row", "improvement"),
    [
        ("writes", "DB Throughput Avg.", "DB I/O"),
        ("writes", "DB IOPS Avg.", "DB IOPS"),
        ("writes", "CPU Utilisation Avg.", "CPU utilisation"),
        ("reads", "DB Throughput Peak", "peak DB I/O"),
        ("reads", "DB Throughput Avg.", "average DB I/O"),
        ("reads", "Server IOPS Peak", "peak Server IOPS"),
        ("reads", "Server IOPS Avg.", "average Server IOPS"),
    ],
)
def test_the_text_s_improvements_are_ratios(table: str, row: str, improvement: str) -> None:
    paper = read_paper("003")
    _, first, *_, last = map(printed_number, paper.exhibit(table).row(row))
    said = paper.exhibit(f"{table}-improvement").number(improvement, "Printed")
    assert first is not None
    assert last is not None
    assert said is not None
    assert int(100 * last / first + 0.5) in (said, said + 1)  # it cuts off some of them


def test_the_text_s_improvements_are_taken_for_ratios() -> None:
    exhibit = page_003(as_in_the_paper()).exhibit("writes-improvement")
    assert exhibit.ours is not None
    assert exhibit.ours.values("ratio")[0] == pytest.approx(53 / 8)
    assert check_that(exhibit, "Elapsed run time: 6.62 times in the paper, 6.62 times here")


def test_peaks_and_means_are_those_of_both_devices_together() -> None:
    measured = load_attempt("x", duration_s=100.0), load_report(rate=100.0)
    assert FIGURES["server_calls_peak"](*measured) == 600.0
    assert FIGURES["server_calls_mean"](*measured) == 400.0
    # Blocks read and written, and as many bytes of WAL as were read.
    assert FIGURES["calls_mean"](*measured) == 200.0
    assert FIGURES["bytes_peak"](*measured) == 3 * 2 * 100 * 8192


def test_waiting_for_an_emulated_device_is_computed_and_marked_as_a_model() -> None:
    emulated = load_attempt("x", duration_s=100.0)
    # Five sessions wait, but two processors cannot wait for more than they are idle.
    assert FIGURES["iowait_mean"](emulated, None) == pytest.approx(0.95)
    assert FIGURES["iowait_modelled"](emulated, None)
    counted = load_attempt("x", duration_s=100.0, blocked_from="kernel")
    assert FIGURES["iowait_mean"](counted, None) == 0.0
    assert not FIGURES["iowait_modelled"](counted, None)


# ---- 004


def test_only_one_of_the_text_s_percentages_is_called_a_ratio() -> None:
    paper = read_paper("004")

    def number(exhibit: str, row: str, column: str) -> float:
        found = paper.exhibit(exhibit).number(row, column)
        assert found is not None
        return found

    read_ms = [number("random-reads", name, "Av Rd(ms)") for name in ("TSP_HDD", "TSP_SSD")]
    scan_mb = [number("table-8-3", name, "Data Per Second, MB") for name in ("HDD", "SSD")]
    redo_ms = [number("table-8-4", "redo write time", f"{name}: Total") for name in ("HDD", "SSD")]
    # "Almost 670 %" and "approximately 7.5 %" better are right; "approximately 250 %" is a ratio.
    assert 660 < 100 * (read_ms[0] / read_ms[1] - 1) < 670
    assert 7.4 < 100 * (scan_mb[1] / scan_mb[0] - 1) < 7.6
    assert 249 < 100 * redo_ms[0] / redo_ms[1] < 251
    (ratio,) = (one for one in paper.errata if "%" in one)
    assert "250 %" in ratio
    assert "670" not in ratio


SIDES = {
    "random-read": (11.0, 0.5),
    "random-write": (20.0, 10.0),
    "redo-on-flash": (12.0, 2.0),
    "sequential-read": (4000.0, 2000.0),
    "sequential-write": (700.0, 600.0),
}


def micro_report(*, redo_ms: float) -> AwrReport:
    """Return a report with tablespaces, and 1,000 writes of the log."""
    seconds = Number(value=redo_ms, unit=Unit.SECONDS, source=Source.EXACT)
    nothing = Number(value=0.0, unit=Unit.SECONDS, source=Source.EXACT)
    count = Number(value=1000, unit=Unit.COUNT, source=Source.EXACT)
    size = Number(value=3990.0, unit=Unit.BYTES_PER_TRANSACTION, source=Source.EXACT)
    return report(
        table(
            "io-tablespaces",
            [
                column("tablespace"),
                column("reads", Unit.COUNT),
                column("reads_per_s", Unit.PER_SECOND),
                column("read_ms", Unit.MILLISECONDS),
                column("blocks_per_read", Unit.RATIO),
            ],
            ("pg_default", 1500, 100.0, 11.0, 1.0),
            ("on_flash", 30_000, 200.0, 1.5, 1.0),
        ),
        table(
            "wal",
            [column("name"), column("total"), column("per_s"), column("per_transaction")],
            ("WAL size", count, count, size),
            ("WAL writes", count, count, count),
            ("WAL syncs", count, count, count),
            ("WAL write time", nothing, nothing, nothing),
            ("WAL sync time", seconds, seconds, seconds),
        ),
    )


def page_004(sides: Mapping[str, tuple[float, float]]) -> PaperPage:
    attempts = [
        dataclasses.replace(
            attempt(BASELINE, tpm=600),
            approach=name,
            by_transaction=(
                latency(count=10, mean_ms=array, transaction="array"),
                latency(count=10, mean_ms=flash, transaction="flash"),
            ),
        )
        for name, (array, flash) in sides.items()
    ]
    reports = {
        name: micro_report(redo_ms=2.0 if name == "redo-on-flash" else 5.0) for name in sides
    }
    disk = Device(
        role="array",
        name="sata-7200",
        emulated=True,
        summary="one disk",
        facts={
            "servers": "1",
            "rotation_max_ns": "8300000",
            "read_position_min_ns": "2000000",
            "read_position_max_ns": "11000000",
            "bandwidth_bytes_s": "104857600",
            "limit_bytes_s": "0",
            "cache_bytes": "33554432",
        },
    )
    page = build_paper("004", run_with(list(sides), attempts, disk), reports)
    assert page is not None
    return page


def test_random_reads_gain_most_and_sequential_writes_least() -> None:
    page = page_004(SIDES)
    gains = page.exhibit("gains")
    assert gains.verdict is Verdict.AGREES
    assert gains.ours is not None
    ours = dict(zip(gains.ours.values("kind"), gains.ours.values("gain"), strict=True))
    assert ours["random reads"] == pytest.approx(22.0)
    assert ours["redo writes"] == pytest.approx(2.5)
    assert page.sentences[0].startswith("How many times shorter an operation is on flash: random")


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("sequential-read", (4000.0, 100.0)),
        ("random-write", (10.0, 10.0)),
    ],
)
def test_another_order_of_the_gains_is_said(name: str, times: tuple[float, float]) -> None:
    gains = page_004({**SIDES, name: times}).exhibit("gains")
    assert gains.verdict is Verdict.PARTLY


def test_tables_are_read_from_the_reports_of_their_own_approaches() -> None:
    page = page_004(SIDES)
    scans = page.exhibit("table-8-3").ours
    assert scans is not None
    assert scans.values("bytes_per_s") == (100 * 8192.0, 200 * 8192.0)
    assert check_that(page.exhibit("table-8-4"), "What flash makes of it: 2.55 times")
    assert page.exhibit("random-reads").verdict is Verdict.AGREES


def test_devices_are_told_by_their_profiles() -> None:
    devices = page_004(SIDES).exhibit("table-8-2")
    assert devices.verdict is Verdict.AGREES
    assert devices.ours is not None
    assert devices.ours.values("read_ms") == pytest.approx((10.65,))
    assert devices.ours.values("bytes_per_s") == (104857600.0,)


def test_a_run_without_any_attempt_shows_both_papers_and_nothing_else() -> None:
    for paper, names in (("003", [*WRITES, *READS]), ("004", list(SIDES))):
        page = build_paper(paper, run_with(names, []), {})
        assert page is not None
        shown = {one.id for one in page.exhibits if one.verdict is not Verdict.NOT_SHOWN}
        assert shown <= {"table-8-2"}
        assert render_paper_text(page)
