# SPDX-License-Identifier: PostgreSQL
"""tools/scratch.sh: a run removes its files, or the next run does."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster import REPOSITORY
from support.patience import PATIENCE_S, eventually

SCRATCH = REPOSITORY / "tools" / "scratch.sh"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose temporary folders belong to the test."""
    folders = {name: str(tmp_path / name) for name in ("TMPDIR", "MEMDIR")}
    for folder in folders.values():
        Path(folder).mkdir()
    return {**os.environ, **folders}


def left(env: dict[str, str]) -> int:
    """Return how many folders of runs there are."""
    return sum(len(list(Path(env[name]).iterdir())) for name in ("TMPDIR", "MEMDIR"))


def age(env: dict[str, str]) -> None:
    """Make folders look an hour old."""
    for name in ("TMPDIR", "MEMDIR"):
        for folder in Path(env[name]).iterdir():
            os.utime(folder, (time.time() - 3600,) * 2)


def run(env: dict[str, str], command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRATCH, "sh", "-c", command], env=env, capture_output=True, text=True, check=False
    )


@contextmanager
def running(
    env: dict[str, str], command: str = "echo ready; read ends"
) -> Iterator[subprocess.Popen[str]]:
    """Start a run that has made its folders and continues until its input ends.

    A shell cannot handle a signal that was ignored when it started, as under nohup.
    """
    with subprocess.Popen(
        ["env", "--default-signal", SCRATCH, "sh", "-c", command],
        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child


def test_a_run_has_folders_of_its_own_which_go_with_it(env: dict[str, str]) -> None:
    done = run(env, 'touch "$TMPDIR/a" "$MEMDIR/b"; ls "$TMPDIR" "$MEMDIR"; kill -ABRT $$')
    assert done.stdout.count("\na\n") == done.stdout.count("\nb\n") == 1
    assert done.returncode == 128 + signal.SIGABRT
    assert left(env) == 0


def test_what_a_killed_run_left_goes_with_the_next_one(env: dict[str, str]) -> None:
    with running(env) as child:
        child.kill()
        child.wait()
        age(env)
        run(env, "true")
        assert left(env) == 2, "the command that it ran is still there"
        assert child.stdin is not None
        child.stdin.close()
        assert eventually(lambda: run(env, "true") and not left(env))


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_interrupts_all_that_runs(env: dict[str, str], told: int) -> None:
    command = "sh -c 'echo ready; sleep 600'; echo the next step"
    with running(env, command) as child:
        child.send_signal(told)
        said, _ = child.communicate(timeout=PATIENCE_S)
    assert said == ""
    assert child.returncode == 128 + signal.SIGINT
    assert left(env) == 0


def test_an_interrupt_is_for_the_command_to_answer(env: dict[str, str]) -> None:
    """Ctrl-C itself has printed that, once."""
    command = "trap 'echo told; exit 7' INT; echo ready; kill -INT $PPID; read ends; echo ended"
    with running(env, command) as child:
        said, _ = child.communicate("", timeout=PATIENCE_S)
    assert (said, child.returncode, left(env)) == ("ended\n", 0, 0)


def test_who_is_there_keeps_his_folders(env: dict[str, str]) -> None:
    with running(env):
        age(env)
        assert run(env, "true").returncode == 0
        assert left(env) == 2
    assert left(env) == 0


def test_where_memory_has_no_room_one_folder_does(env: dict[str, str]) -> None:
    done = run({**env, "MEMDIR": "/nowhere"}, 'test "$TMPDIR" = "$MEMDIR" && echo the same')
    assert done.stdout == "the same\n"
