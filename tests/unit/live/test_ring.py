# SPDX-License-Identifier: PostgreSQL
"""The ring of messages: a reader that slept continues; one that slept too long is told so."""

import threading

from pgflash.live.ring import Ring


def filled(count: int, size: int = 5) -> Ring:
    ring = Ring(size)
    for _ in range(count):
        ring.append("sample", lambda number: {"number": number})
    return ring


def test_a_viewer_gets_what_came_after_his_last_message() -> None:
    ring = filled(4)
    messages, gap = ring.after(2)
    assert [one.number for one in messages] == [3, 4]
    assert messages[0].data == b'{"number":3}'
    assert not gap
    assert ring.after(4) == ([], False)


def test_a_viewer_who_slept_too_long_is_told_of_the_gap() -> None:
    ring = filled(9)
    messages, gap = ring.after(2)
    assert [one.number for one in messages] == [5, 6, 7, 8, 9]
    assert gap
    messages, gap = ring.after(4)
    assert [one.number for one in messages] == [5, 6, 7, 8, 9]
    assert not gap


def test_a_number_that_never_was_gets_everything() -> None:
    messages, _gap = filled(3).after(99)
    assert [one.number for one in messages] == [1, 2, 3]


def test_an_empty_ring_has_no_gap_for_who_begins() -> None:
    assert Ring().after(0) == ([], False)
    assert Ring().newest == 0


def test_waiting_ends_with_a_message_or_in_time() -> None:
    ring = filled(1)
    assert ring.wait(0, 0.0)
    assert not ring.wait(1, 0.05)
    timer = threading.Timer(0.05, lambda: ring.append("sample", lambda number: number))
    timer.start()
    assert ring.wait(1, 5.0)
    timer.join()


def test_listeners_hear_of_every_message_until_they_are_forgotten() -> None:
    ring = Ring()
    heard: list[int] = []

    def listener() -> None:
        heard.append(ring.newest)

    ring.listen(listener)
    ring.append("sample", lambda number: number)
    ring.forget(listener)
    ring.append("sample", lambda number: number)
    assert heard == [1]


def test_two_rings_have_their_own_epochs() -> None:
    assert Ring().epoch != Ring().epoch
