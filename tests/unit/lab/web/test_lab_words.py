# SPDX-License-Identifier: PostgreSQL
"""What the lab's page says about its runs."""

import msgspec

from pgflash_lab.model.lab_view import LabView, RunApproach, RunProgress, RunSecond, RunView
from pgflash_lab.web import lab_words


def lab(*runs: RunView, **missing: str) -> dict[str, object]:
    view = LabView(store="out", runs_all=len(runs), runs=runs, missing=missing)
    return lab_words.lab(msgspec.to_builtins(view))


def test_a_run_that_is_being_made_tells_its_stage_and_what_is_left() -> None:
    progress = RunProgress(
        began_at="2026-11-22T10:00:00+00:00", stage="measuring baseline 2", stage_began_at="",
        stage_expected_s=60, left_s=300, share=0.4, attempt_notes=("repeating",),
    )  # fmt: skip
    found = lab(
        RunView(id="a", state="running", attempts=1, planned=4, progress=progress),
        RunView(id="b", state="stopped", why="interrupted", attempts=2, planned=4),
    )
    assert found["sentence"] == "Of 2 runs 1 is being made: a, about 5.0 min are left."
    runs = found["runs"]
    assert isinstance(runs, list)
    assert runs[0]["progress"] == {
        "words": "Measuring baseline 2; about 5.0 min are left.",
        "share": 0.4,
        "notes": ("repeating",),
        "throughput": None,
    }
    assert runs[1]["words"] == "Stopped: interrupted, 2 of 4 attempts."


def test_a_run_that_is_measured_shows_its_throughput_now_and_second_by_second() -> None:
    seconds = tuple(
        RunSecond(
            at_s=at_s, per_s=per_s, latency_ms=12.5, bytes_per_s={"array": 30.0 * 2**20, "flash": 0}
        )
        for at_s, per_s in ((1.0, None), (2.0, 800.0), (3.0, 1234.0))
    )
    progress = RunProgress(
        began_at="2026-11-22T10:00:00+00:00", stage="measuring", stage_began_at="",
        stage_expected_s=60, left_s=None, share=None, attempt="Flash cache, repeat 1",
        counted="transactions", seconds=seconds,
    )  # fmt: skip
    runs = lab(RunView(id="a", state="running", progress=progress))["runs"]
    assert isinstance(runs, list)
    shown = runs[0]["progress"]["throughput"]
    assert shown["words"] == (
        "Flash cache, repeat 1: 1,234 transactions a second, 12.5 ms each; array 30.0 MB/s; "
        "flash 0 bytes/s."
    )
    assert [one.caption for one in shown["figures"]] == [
        "Transactions a second",
        "Read and written by the devices, MB/s",
    ]
    assert [one.text for one in shown["table"].rows[2].cells][1:3] == ["1,234", "12.5"]


def test_a_load_of_which_only_the_devices_tell_has_one_chart() -> None:
    second = RunSecond(at_s=1.0, per_s=None, latency_ms=None, bytes_per_s={"array": 2.0**20})
    progress = RunProgress(
        began_at="2026-11-22T10:00:00+00:00", stage="Q18, 3 of 14", stage_began_at="",
        stage_expected_s=0, left_s=None, share=None, attempt="Everything on the array, repeat 1",
        counted="queries", seconds=(second,),
    )  # fmt: skip
    runs = lab(RunView(id="a", state="running", progress=progress))["runs"]
    assert isinstance(runs, list)
    shown = runs[0]["progress"]["throughput"]
    assert shown["words"] == "Everything on the array, repeat 1: array 1.00 MB/s."
    assert len(shown["figures"]) == 1


def test_a_run_s_approaches_stand_beside_their_baseline() -> None:
    approach = RunApproach(
        name="flash-cache", title="Flash cache", attempts=3, tpm=12345.6, duration_s=0, p95_ms=8.25,
        read_ms=0.5, hit_ratio=0.875, ratio=2.5,
    )  # fmt: skip
    runs = lab(RunView(id="a", state="finished", approaches=(approach,)))["runs"]
    assert isinstance(runs, list)
    (shown,) = runs[0]["table"].rows
    assert [cell.text for cell in shown.cells] == [
        "Flash cache", "3", "12,346", "–", "8.25", "0.500", "87.5 %", "2.50",
    ]  # fmt: skip


def test_an_empty_store_is_said_to_be_empty() -> None:
    assert lab(runs='there is none in "out"')["sentence"] == 'No runs: there is none in "out".'
