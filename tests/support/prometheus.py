# SPDX-License-Identifier: PostgreSQL
"""Prometheus, its Alertmanager, and exporters: Debian's, each a process on a free port."""

import contextlib
import http.client
import http.server
import json
import random
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from support.patience import PATIENCE_S, until

_MISSING = {
    "prometheus": "there is no Prometheus: apt-get install prometheus",
    "prometheus-alertmanager": "there is none: apt-get install prometheus-alertmanager",
    "prometheus-postgres-exporter": "there is none: apt-get install prometheus-postgres-exporter",
    "prometheus-sql-exporter": "there is none: apt-get install prometheus-sql-exporter",
}

#: Labels, and a value.
Point = tuple[dict[str, str], float]

_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\n"])*)"')

#: Of one sample: its name, and its labels.
Key = tuple[str, frozenset[tuple[str, str]]]


def samples(text: str, *, without: Sequence[str] = ()) -> dict[Key, float]:
    """Return the samples of metrics in text form whose names begin with pgflash."""
    found = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is not None and match[1].startswith("pgflash"):
            labels = {pair for pair in _LABEL.findall(match[2] or "") if pair[0] not in without}
            found[match[1], frozenset(labels)] = float(match[3])
    return found


def free_port() -> int:
    """Return a port that nobody listens on, and that the kernel gives to nobody by itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


class NoAnswerError(Exception):
    """A server answered with an error."""


def get(port: int, path: str) -> str:
    """Return what a local server answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    if answer.status != 200:
        raise NoAnswerError(f"{path}: {text}")
    return text


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    port: int,
    ready: str,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Run a program until it is not needed, once it answers at the path READY."""
    if shutil.which(command[0]) is None:
        pytest.skip(_MISSING[str(command[0])])
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=env)

        def answers() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            with contextlib.suppress(OSError, NoAnswerError):
                get(port, ready)
                return True
            return False

        try:
            until(answers)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


# ---- Prometheus


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A Prometheus that runs."""

    port: int

    def ask(self, path: str, **parameters: object) -> Any:  # noqa: ANN401
        """Return the data of an answer of the API."""
        answer = json.loads(get(self.port, f"/api/v1/{path}?{urlencode(parameters)}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expr: str, at_s: float | None = None) -> list[Point]:
        """Return what an expression is, now or at a time; an error in it fails."""
        found = self.ask("query", query=expr, **({} if at_s is None else {"time": at_s}))
        assert found["resultType"] == "vector", found
        return [(one["metric"], float(one["value"][1])) for one in found["result"]]

    def value(self, expr: str) -> float | None:
        """Return the value of an expression that has one at most."""
        found = self.query(expr)
        assert len(found) <= 1, found
        return found[0][1] if found else None

    def times(self, metric: str, window_s: int = 3600) -> list[float]:
        """Return when a metric that is one series was scraped."""
        (series,) = self.ask("query", query=f"{metric}[{window_s}s]")["result"]
        return [float(at) for at, _value in series["values"]]

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        alerts = self.ask("alerts")["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}


@contextlib.contextmanager
def prometheus(
    folder: Path,
    *,
    targets: Sequence[int],
    rules: Path | None = None,
    alertmanager: int | None = None,
    interval: str = "1s",
    relabel: str = "[]",
) -> Iterator[Prometheus]:
    """Run Debian's Prometheus with the job pgflash."""
    port = free_port()
    listed = ", ".join(f'"127.0.0.1:{one}"' for one in targets)
    managers = f'static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]'
    alerting = f"alerting: {{alertmanagers: [{{{managers}}}]}}\n" if alertmanager else ""
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: {interval}, scrape_timeout: {interval},"
        f" evaluation_interval: {interval}}}\n"
        f"rule_files: [{json.dumps(str(rules)) if rules else ''}]\n{alerting}"
        f"scrape_configs:\n  - job_name: pgflash\n"
        f"    static_configs: [{{targets: [{listed}]}}]\n"
        f"    metric_relabel_configs: {relabel}\n"
    )
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with running(command, port=port, ready="/-/ready", log=folder / "prometheus.log"):
        yield Prometheus(port=port)


# ---- Alertmanager


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Whom Alertmanager notifies."""

    #: Of Alertmanager.
    port: int
    #: The annotations of alerts that fired, by name.
    received: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The names of those that are over.
    resolved: set[str] = field(default_factory=set)


@contextlib.contextmanager
def alertmanager(folder: Path) -> Iterator[Receiver]:
    """Run Debian's Alertmanager, which notifies the receiver at once."""
    port = free_port()
    receiver = Receiver(port=port)

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for one in body["alerts"]:
                name = one["labels"]["alertname"]
                if one["status"] == "firing":
                    receiver.received[name] = {**one["labels"], **one["annotations"]}
                else:
                    receiver.resolved.add(name)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    hooks = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=hooks.serve_forever)
    thread.start()
    config = folder / "alertmanager.yml"
    config.write_text(
        "route: {receiver: test, group_by: [alertname], group_wait: 0s, group_interval: 1s,"
        " repeat_interval: 1h}\n"
        "receivers: [{name: test, webhook_configs: "
        f'[{{url: "http://127.0.0.1:{hooks.server_port}/"}}]}}]\n'
    )
    command = [
        "prometheus-alertmanager",
        f"--config.file={config}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    try:
        with running(command, port=port, ready="/-/ready", log=folder / "alertmanager.log"):
            yield receiver
    finally:
        hooks.shutdown()
        thread.join(PATIENCE_S)
        hooks.server_close()
