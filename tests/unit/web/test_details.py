# SPDX-License-Identifier: PostgreSQL
"""How often a page asks what sessions did, and how long an answer is reused."""

from datetime import UTC, datetime, timedelta

import pytest

from pgflash.model.live import LiveServer, TimeRange
from pgflash.web.details import AGAIN_OF, AGAIN_S, Details, Pace


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


@pytest.mark.parametrize(
    ("source", "missing_min", "asked"),
    [("memory", 0, 1), ("memory", 1, 2), ("snapshots", 0, 2)],
)
def test_only_an_answer_that_lacks_nothing_is_reused_for_good(
    monkeypatch: pytest.MonkeyPatch, source: str, missing_min: int, asked: int
) -> None:
    """What the sampler no longer remembers may be in the next snapshot."""
    end = datetime(2026, 11, 22, 10, tzinfo=UTC)
    begin = end - timedelta(minutes=40)
    answer = TimeRange(
        begin=begin.isoformat(),
        end=end.isoformat(),
        remembered_from=(begin + timedelta(minutes=missing_min)).isoformat(),
        seconds=0.0,
        source=source,
    )
    now = end + timedelta(hours=1)
    server = LiveServer(
        version_num=180_006,
        system_identifier="7",
        started_at=begin,
        in_recovery=False,
        database="app",
        role="watcher",
    )
    monkeypatch.setattr(Details, "_ask", lambda *_asked: (now, answer))
    monkeypatch.setattr("pgflash.web.details.HISTORY_KEPT_S", 0.0)
    details = Details("")
    for _ in range(2):
        details.time_range(server, begin, end)
    assert details.asked == asked
