# SPDX-License-Identifier: PostgreSQL
"""The oltp workload as the lab sees it: the figures of a result."""

from pgflash_lab.model.run import Latency
from pgflash_lab.oltp.model import OltpParameters, OltpResult
from pgflash_lab.oltp.workload import _figures
from pgflash_lab.scenario import load_scenario


def result(*, failures: int, retries: int) -> OltpResult:
    parameters = load_scenario("oltp-approaches").parameters
    assert isinstance(parameters, OltpParameters)
    every = Latency(
        transaction="", count=90, mean_ms=1, p50_ms=1, p90_ms=1, p95_ms=1, p99_ms=1, max_ms=1
    )
    return OltpResult(
        parameters=parameters, started_at="2026-01-02T03:04:05+00:00",
        c_last_constant=0, c_customer_constant=0, c_item_constant=0,
        elapsed_s=12.0, window_s=10.0, transactions=90, tpm=540.0, new_orders=40, nopm=240.0,
        new_orders_acknowledged=44, new_orders_in_database=44,
        database_commits=100, database_rollbacks=0,
        transactions_acknowledged=100, rollbacks_acknowledged=0,
        retries=retries, failures=failures,
        latencies=(every,), seconds=(), validity=(), client_cpu_s=0.5,
    )  # fmt: skip


def test_transactions_that_failed_or_were_retried_are_facts() -> None:
    figures = _figures(result(failures=3, retries=40))
    assert figures.facts == {"failed": 3.0, "retried": 40.0}
    assert figures.transactions_all == 100  # those that failed are not among them
