# SPDX-License-Identifier: PostgreSQL
"""The arithmetic of a run: medians, ratios, shares, and what does not count."""

import pytest

from pgflash.model.waits import WaitClass
from pgflash_lab.model.paper import paper_figure, paper_figures
from pgflash_lab.model.stored import StoredRunError, run_from_json, run_to_json
from pgflash_lab.model.summary import (
    class_profile,
    paired_ratio,
    ratio,
    summarize,
    wait_profile,
)
from pgflash_lab.report import result
from support.runs import ALL, BASELINE, BOTH, FLASH_CACHE, attempt, run_of, whole_run


def test_an_approach_is_its_attempts_median() -> None:
    run = run_of(*(attempt(BASELINE, tpm=tpm, repeat=i) for i, tpm in enumerate((300, 900, 600))))
    (summary,) = summarize(run)
    assert summary.tpm == 600
    assert summary.middle.tpm == 600
    assert summary.spread == pytest.approx(2.0)


def test_a_ratio_is_the_medians_over_the_baselines() -> None:
    summaries = summarize(whole_run())
    assert ratio(summaries, "flash-cache") == pytest.approx(1.5)
    assert ratio(summaries, "wal-and-cache", "all-on-flash") == pytest.approx(0.8)


def test_there_is_no_ratio_to_what_was_not_measured() -> None:
    summaries = summarize(run_of(attempt(FLASH_CACHE, tpm=100)))
    assert ratio(summaries, "flash-cache") is None
    assert ratio(summaries, "nothing") is None


def test_a_paired_ratio_ignores_a_machine_that_slows_down() -> None:
    run = run_of(
        attempt(BOTH, tpm=900, repeat=1),
        attempt(ALL, tpm=1000, repeat=1),
        attempt(BOTH, tpm=450, repeat=2),
        attempt(ALL, tpm=500, repeat=2),
    )
    assert paired_ratio(run, "wal-and-cache", "all-on-flash") == pytest.approx(0.9)


def test_a_polluted_attempt_counts_only_where_there_is_no_clean_one() -> None:
    clean = attempt(BASELINE, tpm=1000)
    dirty = attempt(BASELINE, tpm=10, repeat=2, polluted="others took 40% of the processors")
    (summary,) = summarize(run_of(clean, dirty))
    assert (summary.tpm, summary.polluted) == (1000, False)
    (summary,) = summarize(run_of(dirty))
    assert (summary.tpm, summary.polluted) == (10, True)


def test_a_superseded_attempt_never_counts() -> None:
    old = attempt(BASELINE, tpm=10, superseded=True)
    (summary,) = summarize(run_of(old, attempt(BASELINE, tpm=1000)))
    assert summary.tpm == 1000


def test_shares_are_of_db_time_which_holds_neither_idle_nor_others_io() -> None:
    profile = {one.event: one for one in wait_profile([attempt(BASELINE, tpm=600)])}
    assert profile["IO:DataFileRead"].share == pytest.approx(0.5)
    assert profile["Client:ClientRead"].share == 0
    assert profile["IO:DataFileWrite"].share == 0
    assert sum(one.share for one in profile.values()) == pytest.approx(1.0)


def test_average_sessions_are_samples_over_looks() -> None:
    classes = class_profile([attempt(BASELINE, tpm=600), attempt(BASELINE, tpm=700)])
    assert classes[WaitClass.USER_IO].sessions == pytest.approx(1000 / 200)


def test_server_cpu_of_a_transaction_is_all_cpu_over_all_transactions() -> None:
    one = attempt(BASELINE, tpm=6000)
    assert one.server_cpu_ms_per_transaction == pytest.approx(0.8)


def test_the_papers_ratios_are_commits_over_the_baselines_commits() -> None:
    ratios = {figure.approach: round(figure.ratio, 2) for figure in paper_figures()}
    assert ratios == {
        "baseline": 1.0,
        "flash-cache": 1.36,
        "wal-on-flash": 1.63,
        "hot-objects": 3.01,
        "all-on-flash": 5.17,
    }


def test_the_paper_has_no_figure_for_cache_and_wal_together() -> None:
    assert paper_figure("wal-and-cache") is None


def test_a_result_names_every_figure_and_ratio() -> None:
    found = result(whole_run())
    assert found["approaches"]["baseline"]["tpm"] == 20_000
    assert found["approaches"]["baseline"]["hit_ratio"] is None
    assert found["approaches"]["flash-cache"]["hit_ratio"] == pytest.approx(0.8)
    assert found["ratios"]["all-on-flash/baseline"] == pytest.approx(5.0)
    assert found["ratios"]["wal-and-cache/all-on-flash"] == pytest.approx(0.8)
    assert found["emulated_devices"] == ["sas15k-raid10-6", "nvme"]
    assert found["devices"]["array"]["name"] == "sas15k-raid10-6 (emulated)"


def test_a_run_is_the_same_after_being_stored() -> None:
    run = whole_run()
    assert run_from_json(run_to_json(run), name="run.json") == run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is not a run"),
        (b"{}", "missing required field"),
        (b'\xff{"id": 1}', "is not a run"),
        (b"[1, 2]", "Expected `object`"),
    ],
)
def test_what_is_no_run_is_refused_by_name(text: bytes, message: str) -> None:
    with pytest.raises(StoredRunError, match=message) as caught:
        run_from_json(text, name="somewhere/run.json")
    assert "somewhere/run.json" in caught.value.message


def test_a_run_of_another_format_is_refused() -> None:
    stored = run_to_json(run_of(format=99))
    with pytest.raises(StoredRunError, match="format 99"):
        run_from_json(stored, name="run.json")
