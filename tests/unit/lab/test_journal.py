# SPDX-License-Identifier: PostgreSQL
"""A run's progress, read by another process during the run and after its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgflash.progress import Listener
from pgflash_lab.journal import (
    LOCK_FILE,
    NOTES_MAX,
    PROGRESS_FILE,
    SECONDS_MAX,
    kept,
    progress_of,
)
from pgflash_lab.model.lab_view import RunSecond
from pgflash_lab.store import StoreError

CHILD = """
import sys, time
from pathlib import Path
from pgflash_lab.journal import kept
from pgflash.progress import Listener
with kept(Path(sys.argv[1]), Listener()) as listener:
    listener.plan(60.0)
    listener.stage("baseline: warming up", expected_s=30.0)
    print("ready", flush=True)
    time.sleep(60)
"""


def test_what_is_told_is_written_down_and_passed_on(tmp_path: Path) -> None:
    class Heard(Listener):
        def __init__(self) -> None:
            self.told: list[object] = []

        def plan(self, expected_s: float) -> None:
            self.told.append(expected_s)

        def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
            self.told.append((title, expected_s))

        def note(self, text: str) -> None:
            self.told.append(text)

    heard = Heard()
    with kept(tmp_path, heard) as listener:
        found = progress_of(tmp_path)
        assert found is not None
        assert (found.stage, found.left_s) == ("", None)
        listener.stage("loading", expected_s=5.0)
        listener.plan(100.0)
        for number in range(NOTES_MAX + 5):
            listener.note(f"note {number}")
        found = progress_of(tmp_path)
    assert found is not None
    assert (found.stage, found.stage_expected_s) == ("loading", 5.0)
    assert found.left_s is not None
    assert 0 < found.left_s <= 100
    assert found.notes == tuple(f"note {n}" for n in range(5, NOTES_MAX + 5))
    assert heard.told[:3] == [("loading", 5.0), 100.0, "note 0"]
    assert list(tmp_path.iterdir()) == []
    assert progress_of(tmp_path) is None


def test_the_last_seconds_of_the_attempt_that_is_measured_are_kept(tmp_path: Path) -> None:
    def second(at_s: float) -> RunSecond:
        return RunSecond(at_s=at_s, per_s=100 * at_s, latency_ms=None, bytes_per_s={"array": 1.0})

    def told() -> tuple[str, list[float]]:
        found = progress_of(tmp_path)
        assert found is not None
        return found.attempt, [one.at_s for one in found.seconds]

    with kept(tmp_path, Listener()) as listener:
        for at_s in range(SECONDS_MAX + 5):
            listener.second("baseline, repeat 1", "transactions", second(at_s))
        assert told() == ("baseline, repeat 1", [*range(5, SECONDS_MAX + 5)])
        # They outlive a stage, but not another attempt or a repetition of the same one.
        listener.stage("checking")
        listener.second("flash, repeat 1", "transactions", second(1.0))
        listener.second("flash, repeat 1", "transactions", second(2.0))
        assert told() == ("flash, repeat 1", [1.0, 2.0])
        listener.second("flash, repeat 1", "transactions", second(1.0))
        assert told() == ("flash, repeat 1", [1.0])


def test_a_run_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), kept(tmp_path, Listener()):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_another_process_is_seen_refused_and_known_dead_when_killed(
    tmp_path: Path,
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, tmp_path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        found = progress_of(tmp_path)
        assert found is not None
        assert found.stage == "baseline: warming up"
        with pytest.raises(StoreError, match="made by another process"), kept(tmp_path, Listener()):
            pass
    finally:
        child.kill()
        child.wait()
    # Its files are still there, and it does not run.
    assert {one.name for one in tmp_path.iterdir()} == {PROGRESS_FILE, LOCK_FILE}
    assert progress_of(tmp_path) is None
    # Another may resume it.
    with kept(tmp_path, Listener()):
        assert progress_of(tmp_path) is not None


def test_who_looks_does_not_keep_a_run_from_beginning(tmp_path: Path) -> None:
    for _ in range(20):
        with kept(tmp_path, Listener()):
            assert progress_of(tmp_path) is not None
        progress_of(tmp_path)


def test_a_progress_that_is_no_progress_is_none(tmp_path: Path) -> None:
    with kept(tmp_path, Listener()):
        (tmp_path / PROGRESS_FILE).write_text('{"began_at": 5}')
        assert progress_of(tmp_path) is None
        (tmp_path / PROGRESS_FILE).unlink()
        assert progress_of(tmp_path) is None


def test_a_link_or_a_pipe_in_place_of_the_lock_is_refused_at_once(tmp_path: Path) -> None:
    aim, run = tmp_path / "aim", tmp_path / "run"
    aim.write_text("mine")
    run.mkdir()
    (run / LOCK_FILE).symlink_to(aim)
    with pytest.raises(StoreError, match="could not write"), kept(run, Listener()):
        pass
    assert aim.read_text() == "mine"
    (run / LOCK_FILE).unlink()
    os.mkfifo(run / LOCK_FILE)
    with pytest.raises(StoreError, match="it is not a file"), kept(run, Listener()):
        pass
