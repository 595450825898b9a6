# SPDX-License-Identifier: PostgreSQL
"""The cost of the live page: CPU time, memory, the time to its first content.

A server with a flash cache, 8,000 relations (a table and its index each count), 200 sessions of
which 50 are in a long query, a sampler whose ring is full, and a load of short transactions
is watched by nobody, by one viewer and by twenty on the Performance page,
then by twenty on the page of the flash cache: CPU time of `pgflash serve` and of its
sessions on the server together, as a share of a core.  Viewers do what the pages' scripts do
(live_viewers.py).  Bars: 1 % with one viewer, 2 % with twenty.  The part for reading the counters
of files is measured separately (files.py).

First content: the page is opened in a browser with an empty cache, twenty times; the times until
the first paint (bar: a second), and until all charts are drawn.

Memory: the process's memory by the minute, with twenty viewers who come and go.  It first collects
a quarter of an hour of samples; after that, memory should be flat.

Writes bench/results/live.txt and live.json and prints it (with --memory, which leaves out the rest,
live-memory.txt and live-memory.json); --quick shows that it works.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from live_viewers import watching
from rich.console import Console
from rich.table import Table
from sampler import ACTIVE, SESSIONS, ask, sessions, set_rate, wait_for

from pgflash_lab.account import make_server_dir
from pgflash_lab.server import Server
from support.cluster import ClusterFactory, build_install, find_install

RESULTS = Path(__file__).parent.parent / "results"

CLIENTS = 8
TRANSACTIONS_S = 200
#: Viewers, the page they watch, and the percentage of a core that it may take.
CASES: tuple[tuple[int, str, float | None], ...] = (
    (0, "/", None),
    (1, "/", 1.0),
    (20, "/", 2.0),
    (20, "/cache", 2.0),
)
FIRST_CONTENT_BAR_MS = 1000.0
#: The ring is filled at a thousand looks a second; after so many seconds those are older than the
#: range that a page asks for, so that this range is as dense as with ten looks.  Without viewers
#: the page has read every ten seconds by then.
ALONE_S = 400.0
#: The last quarter of an hour is kept; after a little more its buffers no longer grow.
FILLED_AFTER_MIN = 17
SETTINGS = {
    "pgflash.snapshot_interval": "0",
    "pgflash.cache_size": "256MB",
    "shared_buffers": "64MB",
    "max_locks_per_transaction": "1024",
    "max_connections": str(SESSIONS + 50),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much to measure."""

    relations: int
    #: Of each case.
    seconds: float
    #: With nobody there first.
    alone_s: float
    opened: int
    minutes: int
    #: Whether the sampler remembers as much as it can.
    filled: bool


FULL = Size(relations=8000, seconds=60, alone_s=ALONE_S, opened=20, minutes=25, filled=True)
QUICK = Size(relations=200, seconds=3, alone_s=0, opened=2, minutes=0, filled=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU time with so many viewers, in percent of a core."""

    viewers: int
    page: str
    own: float
    sessions: float
    bar: float | None

    @property
    def verdict(self) -> str:
        """Return the result beside the bar."""
        if self.bar is None:
            return ""
        return "good" if self.own + self.sessions <= self.bar else f"above {self.bar:g} %"


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process with all its threads."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Return the memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def sessions_cpu_s(server: Server) -> dict[int, float]:
    """Return the CPU time of each session of the page: one reads, one answers questions."""
    with server.connect() as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where application_name = 'pgflash'"
        ).fetchall()
    return {pid: cpu_s(pid) for (pid,) in rows}


@contextmanager
def page(server: Server, port: int) -> Iterator[subprocess.Popen[str]]:
    """Serve the page of a server."""
    child = subprocess.Popen(
        [sys.executable, "-m", "pgflash", "serve", "--dsn", server.conninfo(),
         "--listen", f"127.0.0.1:{port}", "--no-token"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stderr is not None
        child.stderr.readline()
        yield child
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(20)


@contextmanager
def load(server: Server) -> Iterator[None]:
    """Run clients."""
    server.run(["pgbench", "-i", "-q", "-s", "5", "postgres"])
    words = ["pgbench", "-c", str(CLIENTS), "-T", "86400", "-R", str(TRANSACTIONS_S), "postgres"]
    child = server.popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.terminate()
        child.wait(20)


def make_relations(server: Server, count: int) -> None:
    """Create this many relations with calls: tables with an index each."""
    with server.connect() as connection:
        for first in range(0, count // 2, 500):
            last = min(first + 500, count // 2) - 1
            connection.execute(
                f"do $$ begin for i in {first}..{last} loop "
                "execute format('create table r%s (n int primary key)', i); "
                "execute format('insert into r%s values (1)', i); end loop; end $$"
            )
        connection.execute("checkpoint")


def fill_ring(server: Server) -> None:
    """Let the sampler fill its ring, then reset its rate."""
    set_rate(server, 1000)
    newest = ask(server, "select newest_at from pgflash_sampler")["newest_at"]
    wait_for(server, f"oldest_at > '{newest}'")
    set_rate(server, 10)


def measure_cost(server: Server, pid: int, port: int, size: Size) -> list[Cost]:
    """Return the cost of each case."""
    found = []
    time.sleep(size.alone_s)
    for count, path, bar in CASES:
        with watching(count, port, path) as viewers:
            time.sleep(min(2.0, size.seconds))
            own, sessions, begin_s = cpu_s(pid), sessions_cpu_s(server), time.monotonic()
            time.sleep(size.seconds)
            elapsed_s = time.monotonic() - begin_s
            own = cpu_s(pid) - own
            now = sessions_cpu_s(server)
            used_s = sum(spent - sessions.get(one, 0.0) for one, spent in now.items())
            assert all(one.samples for one in viewers)
        found.append(
            Cost(
                viewers=count,
                page=path,
                own=100 * own / elapsed_s,
                sessions=100 * used_s / elapsed_s,
                bar=bar,
            )
        )
    return found


def measure_first_content(port: int, count: int) -> dict[str, list[float]]:
    """Return the milliseconds to the first content, and to the last chart, of so many visits."""
    from playwright.sync_api import sync_playwright

    from support.chromium import CHROMIUM

    found: dict[str, list[float]] = {"painted": [], "drawn": []}
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(count):
            context = browser.new_context(viewport={"width": 1200, "height": 900})
            tab = context.new_page()
            tab.goto(f"http://127.0.0.1:{port}/")
            while not tab.evaluate("document.body.dataset.number"):
                tab.wait_for_timeout(5)
            found["drawn"].append(tab.evaluate("performance.now()"))
            found["painted"].append(
                tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
            context.close()
        browser.close()
    return found


def measure_memory(pid: int, port: int, minutes: int) -> list[float]:
    """Return megabytes by the minute; each minute half of the twenty viewers are replaced."""
    found = [memory_mb(pid)]
    with watching(10, port):
        for minute in range(minutes):
            begin_s = time.monotonic()
            with watching(10, port, ("/", "/cache")[minute % 2]):
                time.sleep(max(58 - (time.monotonic() - begin_s), 0))
            time.sleep(max(60 - (time.monotonic() - begin_s), 0))
            found.append(memory_mb(pid))
    return found


def cost_table(found: list[Cost]) -> Table:
    """Return the costs as a table."""
    table = Table("viewers", "page", "pgflash serve", "its sessions", "together", "")
    for one in found:
        table.add_row(
            str(one.viewers),
            one.page if one.viewers else "",
            f"{one.own:.2f} %",
            f"{one.sessions:.2f} %",
            f"{one.own + one.sessions:.2f} %",
            one.verdict,
        )
    return table


def content_table(found: dict[str, list[float]]) -> Table:
    """Return the times to the first content as a table."""
    table = Table("opened", "first content", "worst", "charts drawn", "worst", "")
    painted, drawn = found["painted"], found["drawn"]
    table.add_row(
        f"{len(painted)} times",
        f"{statistics.median(painted):.0f} ms",
        f"{max(painted):.0f} ms",
        f"{statistics.median(drawn):.0f} ms",
        f"{max(drawn):.0f} ms",
        "good" if max(painted) <= FIRST_CONTENT_BAR_MS else f"above {FIRST_CONTENT_BAR_MS:g} ms",
    )
    return table


def memory_lines(found: list[float]) -> list[str]:
    """Return the result for memory, in words."""
    shown = ", ".join(
        f"{found[minute]:.1f} ({minute})"
        for minute in range(0, len(found), max(len(found) // 12, 1))
    )
    lines = [f"Memory of pgflash serve in MB (after so many minutes): {shown}"]
    flat = found[FILLED_AFTER_MIN:]
    if len(flat) >= 5:
        lines.append(
            f"From minute {FILLED_AFTER_MIN} on, when all that is kept is there: "
            f"{flat[0]:.1f} to {flat[-1]:.1f} MB, at most {max(flat):.1f}"
        )
    return lines


def measure_costs(
    console: Console, server: Server, pid: int, port: int, size: Size
) -> dict[str, object]:
    """Measure what does not take hours, print it and return it."""
    cost = measure_cost(server, pid, port, size)
    console.print(f"Share of a core over {size.seconds:g} s each:")
    console.print(cost_table(cost))
    content = measure_first_content(port, size.opened)
    console.print("From a click to the first content, and until the charts are drawn:")
    console.print(content_table(content))
    return {
        "percent": [asdict(one) for one in cost],
        "first_content_ms": content,
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--minutes", type=int, help="how long memory is looked at (25)")
    parser.add_argument("--memory", action="store_true", help="nothing but memory")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    minutes = size.minutes if options.minutes is None else options.minutes
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    install = build_install(find_install(18))
    console = Console(width=110, record=True)
    factory = ClusterFactory(install)
    try:
        server = factory(preload="pgflash", settings=SETTINGS, start=False)
        flash = make_server_dir(server.base / "flash")
        server.configure({"pgflash.cache_file": str(flash / "cache")})
        server.start()
        with server.connect() as connection:
            connection.execute("create extension pgflash")
        make_relations(server, size.relations)
        with (
            load(server),
            sessions(server, asleep=ACTIVE, busy=False),
            page(server, port) as child,
        ):
            if size.filled:
                fill_ring(server)
            console.print(
                f"PostgreSQL {install.version}, {size.relations:,} relations, {SESSIONS} sessions, "
                f"{ACTIVE} in a query, {TRANSACTIONS_S} transactions a second"
            )
            found: dict[str, object] = {"postgres": install.version}
            if not options.memory:
                found |= measure_costs(console, server, child.pid, port, size)
            if minutes:
                memory = measure_memory(child.pid, port, minutes)
                found["memory_mb"] = memory
                for line in memory_lines(memory):
                    console.print(line)
    finally:
        factory.close()
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        name = "live-memory" if options.memory else "live"
        (RESULTS / f"{name}.txt").write_text(console.export_text())
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
