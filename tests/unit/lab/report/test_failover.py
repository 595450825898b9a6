# SPDX-License-Identifier: PostgreSQL
"""The page about a failover: its sentence, its picture, its marks."""

import dataclasses
from collections.abc import Mapping

from pgflash_lab.model.run import Approach, Attempt, Run, Second
from pgflash_lab.model.summary import summarize
from pgflash_lab.report import render_page
from pgflash_lab.report.failover import headline, marks
from support.page import Page
from support.runs import attempt, run_of

COLD = Approach(name="cold-standby", title="Cold", cache=True, base="cold-standby")
WARM = Approach(name="warm-standby", title="Warm", cache=True, base="cold-standby")

FACTS = {
    "fault_s": 5.0,
    "promoted_s": 9.0,
    "to_promotion_s": 4.0,
    "without_commit_s": 4.5,
    "before_tps": 100.0,
    "watched_s": 11.0,
    "transactions_after": 50.0,
    "acknowledged_orders": 30.0,
    "unacknowledged_orders": 0.0,
    "verify_mismatches": 0.0,
}


def failover(approach: Approach, facts: Mapping[str, float] = FACTS, *, repeat: int = 1) -> Attempt:
    seconds = tuple(
        Second(at_s=at, transactions=0 if 5 <= at < 9 else 100, mean_ms=1.0, p95_ms=2.0)
        for at in range(20)
    )
    return dataclasses.replace(
        attempt(approach, tpm=6000, repeat=repeat),
        workload="failover",
        facts={**FACTS, **facts},
        seconds=seconds,
    )


def run() -> Run:
    listed = {"warmth": 1.0, "list_cpu_share": 0.004, "list_wal_share": 0.008}
    quick, slow = {**listed, "recovery_s": 2.0}, {**listed, "recovery_s": 4.0}
    return dataclasses.replace(
        run_of(
            failover(COLD),
            failover(WARM, quick),
            failover(WARM, slow, repeat=2),
            failover(COLD, repeat=2),
            approaches=(COLD, WARM),
        ),
        scenario="failover",
    )


def test_the_result_is_how_long_the_throughput_took_to_return() -> None:
    assert headline(run(), summarize(run())) == (
        "On emulated devices the new leader reached 90 % of the throughput before, counted from "
        "its promotion, not within 11 s with “Cold”, within 4 s with “Warm”."
    )


ON_ARRAY = Approach(name="wal-on-array", title="WAL on the array", base="wal-on-array")
ON_FLASH = Approach(name="wal-on-flash", title="WAL on flash", wal="flash", base="wal-on-array")


def run_of_wal(**facts: float) -> Run:
    return run_of(
        failover(ON_ARRAY, {"before_tps": 100.0, "before_commit_ms": 9.0}),
        failover(ON_FLASH, {"before_tps": 250.0, "before_commit_ms": 1.5, **facts}),
        approaches=(ON_ARRAY, ON_FLASH),
    )


def test_wal_on_flash_is_compared_while_nothing_fails() -> None:
    erased, kept = run_of_wal(returned_s=7.0), run_of_wal()
    assert headline(erased, summarize(erased)) == (
        "On emulated devices, “WAL on flash” with a synchronous standby reached 2.50 times the "
        "throughput of “WAL on the array”, and no acknowledged order was lost with the leader and "
        "its flash."
    )
    assert headline(kept, summarize(kept)).endswith("was lost with the leader.")


def test_the_page_shows_commits_and_how_the_old_leader_came_back() -> None:
    far = dataclasses.replace(run_of_wal(returned_s=7.0), parameters={"network_ms": "0.5"})
    page = Page(render_page(far))
    for text in (
        "Between two members a round trip took 0.5 ms, emulated.",
        "The flash of the killed leader was erased.",
        "Commit waits a transaction",
        "Old leader back after",
    ):
        assert text in page.text
    plain = Page(render_page(run()))
    for text in ("round trip", "erased", "Old leader"):
        assert text not in plain.text


def test_a_recovery_that_was_not_seen_is_longer_than_any_that_was() -> None:
    quick, slow, unseen = (
        failover(WARM, {"recovery_s": 3.0}),
        failover(WARM, {"recovery_s": 9.0}),
        failover(WARM),
    )
    one = run_of(quick, unseen, slow, approaches=(WARM,))
    assert "within 9 s with “Warm”" in headline(one, summarize(one))
    two = run_of(quick, unseen, unseen, slow, unseen, approaches=(WARM,))
    assert "not within 11 s with “Warm”" in headline(two, summarize(two))


def test_the_picture_marks_the_end_of_the_leader_and_each_promotion() -> None:
    assert marks(summarize(run())) == (
        (5.0, "the leader ends"),
        (9.0, "promoted: cold-standby"),
        (9.0, "promoted: warm-standby"),
    )
    page = Page(render_page(run()))
    for text in ("the leader ends", "promoted: warm-standby", "Transactions a second"):
        assert text in page.text


def test_the_page_names_patronis_timings_and_what_a_list_costs() -> None:
    ordered = {"ttl_s": "20", "loop_wait_s": "1", "retry_timeout_s": "3", "list_s": "60"}
    page = Page(render_page(dataclasses.replace(run(), parameters=ordered)))
    assert "(ttl 20 s, loop_wait 1 s, retry_timeout 3 s)" in page.text
    assert "a list every 60 s cost 0.4 % of the servers' CPU time and 0.8 %" in page.text
    assert "Every one of 120 acknowledged orders was on the new leader" in page.text


def test_reads_are_those_of_the_new_leader_and_of_its_own_transactions() -> None:
    (cold, _) = summarize(run())
    assert cold.middle.reading_transactions == FACTS["transactions_after"]
    assert cold.reads_per_transaction == cold.middle.reads.blocks / FACTS["transactions_after"]


def test_a_run_without_a_failover_has_no_marks() -> None:
    one = run_of(attempt(COLD, tpm=6000), approaches=(COLD,))
    assert marks(summarize(one)) == ()
