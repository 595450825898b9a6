# SPDX-License-Identifier: PostgreSQL
"""The processes of a private server: start them, find them, end them.

A child ends with its driver: the kernel sends it a signal (setpriv --pdeathsig).  That signal is
bound to the thread that started the child, so one thread that lives as long as the driver starts
all children.
"""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgflash.machine import processes as machine
from pgflash_lab.account import ServerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process, distinguished by its start time from a later one with the same number."""

    pid: int
    parent: int
    start_ticks: int

    @classmethod
    def find(cls, pid: int) -> "Process | None":
        """Return process PID, or None if there is none or it only waits to be reaped."""
        try:
            stat = machine.Process(pid).stat()
        except OSError:
            return None
        if stat.has_ended:
            return None
        return cls(pid=pid, parent=stat.parent, start_ticks=stat.start_ticks)

    def is_alive(self) -> bool:
        """Say whether this very process is still running."""
        now = Process.find(self.pid)
        return now is not None and now.start_ticks == self.start_ticks

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it is still running."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return
            except PermissionError as error:
                raise ServerError(
                    f"process {self.pid} belongs to another user",
                    hint="Stop it as the user who started it.",
                ) from error

    def is_server(self) -> bool:
        """Say whether it is a postgres, postmaster or child, or is about to end."""
        try:
            return machine.Process(self.pid).program().name.startswith("postgres")
        except OSError:
            # It may hold the server's shared memory until it has ended.
            return True

    def is_backend(self) -> bool:
        """Say whether its title is that of a backend with a client on the Unix socket."""
        try:
            title = machine.Process(self.pid).command_line()
        except OSError:
            return False
        return title.startswith(b"postgres: ") and b" [local] " in title


def children(pid: int) -> list[Process]:
    """Return the children of a process that its first thread has started."""
    try:
        found = [Process.find(child) for child in machine.Process(pid).children()]
    except OSError:
        return []
    return [child for child in found if child is not None]


def servers_in(data: Path) -> list[Process]:
    """Return the server processes that work in a data folder, orphans included."""
    folder = str(data.resolve())
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - of a thousand processes, few work here
        # One that is gone, or another user's, has no folder.
        with suppress(OSError):
            if name.isdecimal() and os.readlink(f"/proc/{name}/cwd") == folder:  # noqa: PTH115
                found.append(Process.find(int(name)))
    return [process for process in found if process is not None and process.is_server()]


class Spawner(threading.Thread):
    """The thread that starts every child.

    PR_SET_PDEATHSIG fires when the thread that made the child ends, not the process, so a worker
    thread that started a server and ended would take the server with it.
    """

    def __init__(self) -> None:
        super().__init__(name="pgflash-spawner", daemon=True)
        self.orders: queue.SimpleQueue[tuple[Future[Any], list[Any], dict[str, Any]]] = (
            queue.SimpleQueue()
        )

    def run(self) -> None:
        """Start what is ordered, forever."""
        while True:
            answer, argv, options = self.orders.get()
            try:
                answer.set_result(subprocess.Popen(argv, **options))
            except BaseException as error:  # passed to the thread that ordered
                answer.set_exception(error)


_spawner_lock = threading.Lock()
_spawner: Spawner | None = None


def spawn(argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401
    """Start a program from the thread that lives as long as the driver."""
    global _spawner
    with _spawner_lock:
        if _spawner is None or not _spawner.is_alive():
            _spawner = Spawner()
            _spawner.start()
    answer: Future[subprocess.Popen[Any]] = Future()
    _spawner.orders.put((answer, list(argv), options))
    try:
        return answer.result()
    except OSError as error:
        raise ServerError(f"could not run {argv[0]}: {error}") from error
