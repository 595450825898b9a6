"""What the live page costs: processor time of `pgflash serve` and of its session, memory.

A server under a load of short transactions is watched by nobody, by one viewer and by twenty,
for a while each; the processor time of the page's process and of its one session on the
server, as a share of a core, and the process's memory at the beginning and at the end.

Writes bench/results/live.txt and prints it; --quick shows that it works.
"""

import argparse
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pgflash.lab.server import Server
from support.cluster import ClusterFactory, build_install, find_install

RESULTS = Path(__file__).parent.parent / "results"

#: Viewers, and the share of a core that the page may take with them.
BARS = ((0, None), (1, 0.01), (20, 0.02))
CLIENTS = 8
SESSION = "select pid from pg_stat_activity where application_name = 'pgflash'"


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Return the memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


@contextmanager
def page(server: Server, port: int) -> Iterator[subprocess.Popen[str]]:
    """Serve the page of a server."""
    child = subprocess.Popen(
        [sys.executable, "-m", "pgflash.cli", "serve", "--dsn", server.conninfo(),
         "--listen", f"127.0.0.1:{port}"],
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
def viewers(count: int, port: int) -> Iterator[None]:
    """Watch the page, so many at once."""
    stop = threading.Event()

    def watch() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/live/events")
        stream = connection.getresponse()
        while not stop.is_set():
            stream.readline()
        connection.close()

    threads = [threading.Thread(target=watch) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def load(server: Server) -> Iterator[None]:
    """Have clients work."""
    server.run(["pgbench", "-i", "-q", "-s", "5", "postgres"])
    words = ["pgbench", "-c", str(CLIENTS), "-T", "86400", "-R", "200", "postgres"]
    child = server.popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.terminate()
        child.wait(20)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    seconds = 3.0 if parser.parse_args().quick else 60.0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    factory = ClusterFactory(build_install(find_install(18)))
    table = Table(box=None, pad_edge=False)
    for name in ("viewers", "page, % of a core", "its session, %", "bar, %", "memory, MB"):
        table.add_column(name, justify="right")
    try:
        server = factory(
            preload="pgflash", settings={"pgflash.snapshot_interval": "0", "shared_buffers": "64MB"}
        )
        with server.connect() as connection:
            connection.execute("create extension pgflash")
        with load(server), page(server, port) as child:
            for count, bar in BARS:
                with viewers(count, port):
                    time.sleep(2)
                    with server.connect() as connection:
                        row = connection.execute(SESSION).fetchone()
                    assert row is not None
                    before = (cpu_s(child.pid), cpu_s(row[0]))
                    time.sleep(seconds)
                    used = (cpu_s(child.pid) - before[0], cpu_s(row[0]) - before[1])
                table.add_row(
                    str(count),
                    f"{100 * used[0] / seconds:.2f}",
                    f"{100 * used[1] / seconds:.2f}",
                    "" if bar is None else f"{100 * bar:.0f}",
                    f"{memory_mb(child.pid):.0f}",
                )
    finally:
        factory.close()
    Console(width=100).print(table)
    if seconds >= 60:
        with (RESULTS / "live.txt").open("w") as file:
            file.write(
                f"What the live page costs, over {seconds:.0f} s each, {CLIENTS} clients\n\n"
            )
            Console(file=file, width=100).print(table)


if __name__ == "__main__":
    main()
