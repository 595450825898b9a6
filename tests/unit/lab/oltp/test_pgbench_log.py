# SPDX-License-Identifier: PostgreSQL
"""Reading pgbench's transaction log."""

import pytest

from pgflash_lab.oltp.pgbench_log import LogError, TransactionLog, read_log


def read(text: str, *, paced: bool = False, pauses: bool = False) -> TransactionLog:
    log = TransactionLog(scripts=[], ends_us=[], latencies_us=[])
    read_log(text.splitlines(keepends=True), log, paced=paced, pauses=pauses)
    return log


def test_a_line_gives_script_end_and_latency() -> None:
    log = read("0 199 2241 3 1175850568 995598 0\n3 7 90 0 1175850569 608 2\n")
    assert log.scripts == [3, 0]
    assert log.ends_us == [1_175_850_568_995_598, 1_175_850_569_000_608]
    assert log.latencies_us == [2_241, 90]
    assert log.retries == 2
    assert log.failures == 0


def test_a_failed_transaction_is_counted_and_not_measured() -> None:
    log = read("3 0 failed 1 1499414498 84905 9\n4 0 11 2 1499414498 94905 0\n")
    assert log.failures == 1
    assert log.retries == 9
    assert log.scripts == [2]


def test_with_a_rate_each_line_has_its_lag_too() -> None:
    log = read("0 199 2241 3 1175850568 995598 17 2\n", paced=True)
    assert (log.scripts, log.latencies_us, log.retries) == ([3], [2_241], 2)


def test_a_pause_comes_before_each_transaction_and_again_after_one_that_did_not_fail() -> None:
    log = read(
        "0 1 900000 0 100 900000 0\n"  # a pause
        "1 1 500000 7 100 950000 0\n"  # another client's
        "0 2 10000 1 100 910000 0\n"
        "1 2 failed 2 101 0 9\n"
        "0 3 800000 3 101 710000 0\n"  # a pause
        "1 3 20000 4 101 720000 0\n"  # no pause: a transaction follows the failed one
        "0 4 30000 5 101 740000 0\n",
        pauses=True,
    )
    assert log.scripts == [1, 4, 5]
    assert log.latencies_us == [10_000, 20_000, 30_000]
    assert log.failures == 1
    assert (log.began_us, log.ended_us) == (100_000_000, 101_740_000)


def test_several_files_add_up() -> None:
    log = read("0 1 10 0 100 5 0\n")
    read_log(["1 1 20 1 100 6 0\n"], log)
    assert log.latencies_us == [10, 20]


@pytest.mark.parametrize(
    "line",
    [
        "0 199 2241 0 1175850568 995598",  # no retries
        "0 199 2241 0 1175850568 995598 17 0",  # a lag without a rate
        "0 199 quick 0 1175850568 995598 0",
        "0 199 2241 0 11758505",  # cut off
        "",
    ],
)
def test_a_line_of_another_shape_is_an_error_that_names_it(line: str) -> None:
    with pytest.raises(LogError, match="unexpected line 2"):
        read(f"0 1 10 0 100 5 0\n{line}\n")
