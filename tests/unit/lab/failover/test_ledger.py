# SPDX-License-Identifier: PostgreSQL
"""What was acknowledged, by pgbench's log, beside what a new leader has."""

import pytest

from pgflash_lab.failover.ledger import Compared, acknowledged, compare, named_script
from pgflash_lab.oltp.scripts import script_number
from pgflash_lab.workload import InconsistentError

ORDER, PAYMENT = script_number("new_order"), script_number("payment_by_name")


def line(client: int, script: int, *, time: str = "100", retries: int = 0) -> str:
    return f"{client} 1 {time} {script} 1700000000 1 {retries}"


def test_only_new_orders_are_named_in_the_order_in_which_a_client_entered_them() -> None:
    lines = [line(0, ORDER), line(0, PAYMENT), line(1, ORDER), line(0, ORDER)]
    assert acknowledged(lines, run=2) == {(2, 0, 1), (2, 0, 2), (2, 1, 1)}


def test_a_try_that_was_repeated_has_used_its_number() -> None:
    lines = [line(0, ORDER, retries=2), line(0, ORDER)]
    assert acknowledged(lines, run=1) == {(1, 0, 3), (1, 0, 4)}


def test_an_order_that_failed_is_not_promised() -> None:
    lines = [line(0, ORDER, time="failed", retries=9), line(0, ORDER)]
    assert acknowledged(lines, run=1) == {(1, 0, 11)}


def test_the_order_in_progress_may_be_there_or_not() -> None:
    promised = {(1, 0, 1), (1, 0, 2), (1, 1, 1)}
    assert compare(promised, promised) == Compared(acknowledged=3, unacknowledged=0)
    present = promised | {(1, 0, 3), (1, 2, 1)}
    assert compare(promised, present) == Compared(acknowledged=3, unacknowledged=2)


def test_an_acknowledged_order_that_is_missing_is_an_error() -> None:
    promised = {(1, 0, 1), (1, 0, 2), (1, 1, 1)}
    with pytest.raises(InconsistentError, match="1 of 3 acknowledged orders are not on the new"):
        compare(promised, promised - {(1, 0, 2)})


def test_an_order_that_takes_the_place_of_a_missing_one_hides_nothing() -> None:
    promised = {(1, 0, 1), (1, 0, 2)}
    with pytest.raises(InconsistentError, match="try 1 of client 0"):
        compare(promised, {(1, 0, 2), (1, 0, 3)})


@pytest.mark.parametrize("extra", [{(1, 0, 1)}, {(1, 0, 4), (1, 0, 5)}])
def test_an_order_that_nobody_can_have_entered_is_an_error(
    extra: set[tuple[int, int, int]],
) -> None:
    promised = {(1, 0, 2), (1, 0, 3)}
    with pytest.raises(InconsistentError, match="nobody can have entered"):
        compare(promised, promised | extra)


def test_the_terminal_enters_its_orders_by_name() -> None:
    assert "CALL failover.enter_new_order(:run, :client_id, :try," in named_script()
    assert "CALL oltp.enter_new_order(" not in named_script()
