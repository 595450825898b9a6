# SPDX-License-Identifier: PostgreSQL
"""How often a page asks what sessions did."""

import pytest

from pgflash.web.details import AGAIN_OF, AGAIN_S, Pace


@pytest.mark.parametrize(
    ("took_s", "again_s"),
    [(0.0, 10.0), (0.05, 10.0), (0.051, 30.0), (0.6, 120.0), (1.5, 300.0), (60.0, 300.0)],
)
def test_a_page_asks_less_often_what_takes_longer_to_answer(took_s: float, again_s: float) -> None:
    pace = Pace()
    for _ in range(AGAIN_OF - 1):
        pace.again_s(took_s)
    assert pace.again_s(took_s) == again_s


def test_answers_that_waited_for_the_machine_do_not_stop_the_tables() -> None:
    pace = Pace()
    assert [pace.again_s(60.0) for _ in range(AGAIN_OF - 1)] == [AGAIN_S[0]] * (AGAIN_OF - 1)
    pace.again_s(0.01)
    assert [pace.again_s(60.0) for _ in range(AGAIN_OF)] == [AGAIN_S[0]] * (AGAIN_OF - 1) + [
        AGAIN_S[-1]
    ]
