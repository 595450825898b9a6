# SPDX-License-Identifier: PostgreSQL
"""The figures of a load that has run through a failover, from a log made by hand."""

from pgflash_lab.failover.driver import Ridden
from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.oltp.pgbench_log import TransactionLog
from pgflash_lab.scenario import load_scenario

S = 1_000_000


def test_transactions_that_failed_or_were_retried_are_facts() -> None:
    parameters = load_scenario("failover").parameters
    assert isinstance(parameters, FailoverParameters)
    ridden = Ridden(
        started_at="2026-01-02T03:04:05+00:00",
        begin_us=0,
        fault_us=10 * S,
        ended_us=10 * S,
        promoted_us=30 * S,
        end_us=40 * S,
        log=TransactionLog(scripts=[0], ends_us=[S], latencies_us=[1000], failures=3, retries=40),
        promised=frozenset(),
        client_cpu_s=0.5,
    )
    assert ridden.figures(parameters).facts == {"failed": 3.0, "retried": 40.0}
