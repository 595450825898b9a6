# SPDX-License-Identifier: PostgreSQL
"""Prometheus and exporters, as people run them, say the same as the views of a real server.

Exporters read with the generated queries, as a role in pg_monitor and no more.  Prometheus scrapes
a server under load; every expression of the dashboard and of the alerts is evaluated there, and
compared with what the views counted meanwhile.

A rate of Prometheus is the difference of the first and last sample of the range, stretched to the
range.  So the load lies between two scrapes, each when the server was quiet, and the range ends
just after the last one: what is left of the stretching is known from the samples' times.
"""

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from definitions.alerts import alerts
from definitions.dashboard import DASHBOARD, RATE, SELECT
from definitions.exporters import MONITORING
from definitions.metric_queries import flat_queries, metric_queries
from definitions.metrics import metrics
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import REPOSITORY, ClusterFactory
from support.patience import eventually, until
from support.prometheus import (
    Key,
    Prometheus,
    free_port,
    get,
    prometheus,
    running,
    samples,
)
from support.promtool import promtool_complaints
from support.served import Served, served

GUIDE = REPOSITORY / "docs/guide/monitoring.md"

#: Each part is more than shared_buffers, and overlaps with the next.
SHARED_BUFFERS = "4MB"
PART = 12_000
ROWS = 40_000


@pytest.fixture(scope="module")
def cached(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    """A server with everything that a metric tells of, and nothing that works by itself."""
    factory = ClusterFactory(pgflash_install)
    one = create_cached(
        factory,
        pgflash_install,
        settings={
            "shared_buffers": SHARED_BUFFERS,
            "pgflash.verify": "off",
            "pgflash.write_budget": "1TB",
            "autovacuum": "off",
            "bgwriter_delay": "10s",
            "fsync": "on",
        },
    )
    with one.server.connect() as connection:
        connection.execute("create role watcher login in role pg_monitor")
        connection.execute(
            "create table item as select n as id, 0 as hits, repeat('x', 500) as pad"
            f" from generate_series(1, {ROWS}) n"
        )
        connection.execute("alter table item add primary key (id)")
        connection.execute("vacuum item")
    work(one, 0)
    yield one
    factory.close()


@pytest.fixture(scope="module")
def page(cached: CachedServer) -> Iterator[Served]:
    with served(f"{cached.server.conninfo()} user=watcher", interval_s=0.1) as one:
        until(lambda: one.collector.status.state == "live")
        yield one


def work(cached: CachedServer, part: int) -> None:
    """Read a part of the table twice, some of it for the first time, and change a few rows."""
    with cached.server.connect() as connection:
        connection.execute("set enable_seqscan = off")
        connection.execute("set enable_bitmapscan = off")
        for _ in range(2):
            connection.execute(
                f"do $$ begin for i in 1..2000 loop"
                f" perform pad from item where id = {part * PART} + i * 7; end loop; end $$"
            )
        connection.execute("update item set hits = hits + 1 where id % 50 = 0")
        connection.execute("checkpoint")


def scraped(page: Served) -> dict[Key, float]:
    """Return the samples of /metrics that exporters have, too, from a reading that begins now."""
    newest = page.collector.ring.newest
    until(lambda: page.collector.ring.newest > newest + 1)
    found = samples(page.ask("/metrics").text)
    own = [name for name, facts in metrics().items() if "without" in facts]
    return {key: one for key, one in found.items() if not key[0].startswith(tuple(own))}


def same_while_quiet(page: Served, ask: Callable[[], dict[Key, float]]) -> None:
    """Fail unless what is asked becomes the same as /metrics, before and after."""
    seen: list[tuple[dict[Key, float], dict[Key, float]]] = []

    def agrees() -> bool:
        before, asked, after = scraped(page), ask(), scraped(page)
        seen.append((before, asked))
        return before == after and asked == pytest.approx(before)

    met = eventually(agrees)
    ours, theirs = seen[-1]
    assert theirs.keys() == ours.keys()
    assert met, {key: (one, theirs[key]) for key, one in ours.items() if one != theirs[key]}
    # That says something only of what is there.
    assert {name for name, _labels in ours} == {
        value.sample for query in flat_queries() for value in query.values
    }


# ---- exporters


@pytest.mark.extension
def test_every_query_has_the_columns_that_are_declared(cached: CachedServer) -> None:
    with psycopg.connect(f"{cached.server.conninfo()} user=watcher") as watcher:
        for query in (*metric_queries(), *flat_queries()):
            told = query.arrays() if query.histogram else query
            for mark in ("", "tag_"):
                cursor = watcher.execute(told.sql(mark=mark).encode())
                names = [column.name for column in cursor.description or ()]
                wanted = [f"{mark}{name}" for name in told.labels]
                assert names == wanted + [value.column for value in told.values]
                assert cursor.fetchall(), query.name


def test_postgres_exporter_has_the_same_metrics(
    cached: CachedServer, page: Served, tmp_path: Path
) -> None:
    port = free_port()
    command = [
        "prometheus-postgres-exporter",
        f"--extend.query-path={MONITORING / 'postgres_exporter.yaml'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--disable-default-metrics",
        "--disable-settings-metrics",
    ]
    env = {"DATA_SOURCE_NAME": f"{cached.server.conninfo()} user=watcher sslmode=disable"}
    log = tmp_path / "exporter.log"
    with running(command, port=port, ready="/", log=log, env=env):
        text = get(port, "/metrics")
        assert "pg_exporter_last_scrape_error 0" in text, log.read_text()
        assert promtool_complaints(only_ours(text)) == ""
        same_while_quiet(page, lambda: samples(get(port, "/metrics"), without=["server"]))


def only_ours(text: str) -> str:
    """Return the metrics of pgflash alone."""
    return "".join(f"{line}\n" for line in text.splitlines() if re.match(r"(# \w+ )?pgflash", line))


def cnpg_program() -> Path:
    """Build the program that runs CloudNativePG's collector; it takes some minutes once."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go, with which CloudNativePG is written")
    folder = REPOSITORY / "build/cnpg"
    shutil.copytree(REPOSITORY / "tests/support/cnpg", folder, dirs_exist_ok=True)
    build = ["go", "build", "-mod=mod", "-o", "cnpg", "."]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "cnpg"


@pytest.mark.monitoring_check
@pytest.mark.timeout(3600)
def test_cloudnativepg_has_the_same_metrics_behind_its_prefix(
    cached: CachedServer, page: Served, tmp_path: Path
) -> None:
    program = cnpg_program()
    # Of the ConfigMap, what its key holds.
    _head, queries = (MONITORING / "cloudnative-pg.yaml").read_text().split("  queries: |\n")
    (tmp_path / "queries.yaml").write_text(textwrap.dedent(queries))
    socket = conninfo_to_dict(cached.server.conninfo())
    env = {**os.environ, "PGHOST": str(socket["host"]), "PGPORT": str(socket["port"])}

    def asked() -> dict[Key, float]:
        command = [program, tmp_path / "queries.yaml", cached.server.data]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert "cnpg_last_error 0" in done.stdout, done.stderr
        return samples(done.stdout.replace("\ncnpg_pgflash", "\npgflash"))

    same_while_quiet(page, asked)


@contextlib.contextmanager
def sql_exporter(cached: CachedServer, folder: Path) -> Iterator[int]:
    """Run Debian's prometheus-sql-exporter, and yield its port."""
    port = free_port()
    socket = {**conninfo_to_dict(cached.server.conninfo()), "user": "watcher", "sslmode": "disable"}
    text = (MONITORING / "prometheus-sql-exporter.yml").read_text()
    for said, here in {
        'interval: "15s"': 'interval: "200ms"',
        "postgres://watcher@127.0.0.1:5432/postgres?sslmode=prefer": (
            f"postgres:///postgres?{urlencode(socket)}"
        ),
    }.items():
        assert text.count(said) == 1
        text = text.replace(said, here)
    config = folder / "sql_exporter.yml"
    config.write_text(text)
    command = [
        "prometheus-sql-exporter",
        f"-config.file={config}",
        f"-web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, port=port, ready="/metrics", log=folder / "exporter.log"):
        yield port


def test_prometheus_names_the_metrics_of_the_sql_exporter_as_the_guide_says(
    cached: CachedServer, page: Served, tmp_path: Path
) -> None:
    (relabel,) = re.findall(r"metric_relabel_configs:\n((?:      .*\n)+)", GUIDE.read_text())
    added = {"driver", "host", "database", "user", "sql_job", "job", "instance", "__name__"}
    with (
        sql_exporter(cached, tmp_path) as port,
        prometheus(tmp_path, targets=[port], relabel=f"\n{relabel}", interval="200ms") as one,
    ):

        def asked() -> dict[Key, float]:
            return {
                (
                    labels["__name__"],
                    frozenset(pair for pair in labels.items() if pair[0] not in added),
                ): value
                for labels, value in one.query('{__name__=~"pgflash_.+"}')
            }

        same_while_quiet(page, asked)


# ---- the dashboard


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the views count, by flow and by the ends of ranges of times."""

    cache: Mapping[str, Any]
    benefit: Mapping[str, Any]
    calls: Mapping[str, float]
    ms: Mapping[str, float]
    times: Mapping[tuple[str, float, float], float]


def counted(connection: psycopg.Connection[Any]) -> Counted:
    """Ask the views."""
    with connection.cursor(row_factory=dict_row) as cursor:
        (cache,) = cursor.execute("select * from pgflash_cache").fetchall()
        (benefit,) = cursor.execute(
            "select * from pgflash_cache_benefit where period = 'start'"
        ).fetchall()
        io = cursor.execute("select * from pgflash_io").fetchall()
        times = cursor.execute(
            "select source, lower_us, upper_us, sum(calls)::float8 as calls"
            " from pgflash_io_histogram where file_class = 'data' and operation = 'read'"
            " group by 1, 2, 3"
        ).fetchall()
    calls: dict[str, float] = {}
    ms: dict[str, float] = {}
    for row in io:
        flow = flow_of(row)
        if flow:
            calls[flow] = calls.get(flow, 0) + row["calls"]
            ms[flow] = ms.get(flow, 0) + row["time_ms"]
    return Counted(
        cache=cache,
        benefit=benefit,
        calls=calls,
        ms=ms,
        times={(row["source"], row["lower_us"], row["upper_us"]): row["calls"] for row in times},
    )


def flow_of(row: Mapping[str, Any]) -> str:
    """Return the flow of a row of pgflash_io, or "wal sync"; "": none."""
    if row["file_class"] == "wal":
        return {"write": "wal", "sync": "wal sync"}.get(row["operation"], "")
    if row["file_class"] in ("temp", "temp relation"):
        return "temp"
    if row["file_class"] != "data":
        return ""
    return str(row["source"]) if row["operation"] == "read" else "disk writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meanwhile:
    """What was counted between two scrapes, and how long that was."""

    before: Counted
    after: Counted
    #: The value of each counter at the first scrape of all.
    first: Mapping[str, float]
    seconds: float

    def rate(self, column: str) -> float:
        """Return how much a column of pgflash_cache grew a second."""
        return float(self.after.cache[column] - self.before.cache[column]) / self.seconds

    def grown(self, column: str) -> float:
        """Return how much it grew since the first scrape."""
        return float(self.after.cache[column] - self.first[column])

    def call_rates(self) -> dict[str, float]:
        """Return calls a second, by flow."""
        after, before = self.after.calls, self.before.calls
        return {flow: (n - before.get(flow, 0)) / self.seconds for flow, n in after.items()}

    def wait_rates(self) -> dict[str, float]:
        """Return seconds waited a second, by flow."""
        after, before = self.after.ms, self.before.ms
        return {flow: (n - before.get(flow, 0)) / 1000 / self.seconds for flow, n in after.items()}

    def means(self) -> dict[str, float]:
        """Return the mean time of a read, by source."""
        calls, waits = self.call_rates(), self.wait_rates()
        return {one: waits[one] / calls[one] for one in SOURCES if calls.get(one)}

    def spared(self) -> float:
        """Return the sessions that would wait had flash been as slow as the disk."""
        return self.call_rates()["flash"] * self.means()["disk"] - self.wait_rates()["flash"]

    def slowest(self) -> dict[str, tuple[float, float]]:
        """Return the range in which the 99th of 100 reads is, by source."""
        return {source: found for source in SOURCES if (found := self._slowest(source)) is not None}

    def _slowest(self, source: str) -> tuple[float, float] | None:
        grown = {
            (lower, upper): calls - self.before.times.get((name, lower, upper), 0)
            for (name, lower, upper), calls in self.after.times.items()
            if name == source
        }
        total, running_total = sum(grown.values()), 0.0
        for (lower, upper), calls in sorted(grown.items()):
            running_total += calls
            if total and running_total >= 0.99 * total:
                return lower / 1e6, upper / 1e6
        return None


SOURCES = ("page cache", "flash", "disk")

ERRORS = {
    "reads failed": "flash_read_errors",
    "writes failed": "flash_write_errors",
    "reads too late": "read_timeouts",
    "wrong checksums": "corrupt_slots",
    "mismatches": "verify_mismatches",
    "foreign changes": "foreign_changes",
}


def of_columns(m: Meanwhile, prefix: str) -> dict[str, float]:
    """Return the rates of the columns that begin so, by the rest of their names."""
    names = [name for name in m.after.cache if name.startswith(prefix)]
    return {name.removeprefix(prefix).replace("_", " "): m.rate(name) for name in names}


#: What each panel shows, by its legend; another than that is a failure.
PANELS: Mapping[str, Callable[[Meanwhile], Mapping[str, float]]] = {
    "Mode": lambda m: {m.after.cache["mode"]: 1},
    "Read time saved (modelled)": lambda m: {"": m.after.benefit["saved_share"]},
    "Read time saved (modelled), time": lambda m: {"": m.after.benefit["saved_ms"] / 1000},
    "Sessions spared (modelled)": lambda m: {"": m.spared()},
    "Hit ratio": lambda m: {"": m.rate("hits") / (m.rate("hits") + m.rate("misses"))},
    "Reads by source": lambda m: {
        flow: calls for flow, calls in m.call_rates().items() if flow in SOURCES
    },
    "Mean time of a read, by source": lambda m: m.means(),
    "Processes waiting for files": lambda m: {
        flow: waits for flow, waits in m.wait_rates().items() if flow != "wal sync"
    },
    "Written to flash": lambda m: {"": m.rate("flash_write_bytes")},
    "Written to flash in 24 hours": lambda m: {"": m.grown("flash_write_bytes")},
    "Left of the write budget": lambda m: {"": m.after.cache["write_budget_left_bytes"]},
    "Used, of its size": lambda m: {
        "used": m.after.cache["used_bytes"],
        "size": m.after.cache["size_bytes"],
    },
    "Fills": lambda m: {
        "new": m.rate("inserts") - m.rate("updates"),
        "refreshed": m.rate("updates"),
    },
    "Evictions": lambda m: of_columns(m, "eviction_"),
    "Blocks not added, by reason": lambda m: of_columns(m, "insert_skip_"),
    "Mode over time": lambda m: {m.after.cache["mode"]: 1},
    "Cache files": lambda m: {f"{m.after.cache['cache_file']} in use": 1},
    "Errors in the last hour": lambda m: {
        legend: m.grown(column) for legend, column in ERRORS.items()
    },
}


BYPASSED = "select from pgflash_cache_devices where state <> 'in use'"


def test_every_panel_shows_what_the_views_counted(
    cached: CachedServer, page: Served, tmp_path: Path
) -> None:
    with (
        prometheus(tmp_path, targets=[page.port], interval="200ms") as one,
        cached.server.connect() as connection,
    ):
        hits = "pgflash_cache_hits_total"
        until(lambda: one.value(hits) is not None)

        def settled() -> tuple[Counted, float]:
            """Wait until nothing happens; return what is counted, and when that was scraped."""
            told = counted(connection)

            def quiet() -> bool:
                nonlocal told
                before, told = told, counted(connection)
                scrapes = len(one.times(hits))
                until(lambda: len(one.times(hits)) >= scrapes + 3)
                read = sum(value for labels, value in one.query("pgflash_requests_total"))
                if connection.execute(BYPASSED).rowcount:
                    return False  # a busy machine's memory may be no faster than its disk
                calls = sum(n for flow, n in told.calls.items() if flow != "wal sync")
                return before == told == counted(connection) and read == calls

            assert eventually(quiet)
            return told, one.times(hits)[-1]

        before, begin_s = settled()
        work(cached, 1)
        after, end_s = settled()
        # Just beyond both scrapes.
        window_ms = round((end_s - begin_s) * 1000) + 100
        meanwhile = Meanwhile(
            before=before, after=after, seconds=end_s - begin_s, first=first_values(one)
        )
        stretched = window_ms / 1000 / meanwhile.seconds
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            if panel["type"] == "row":
                continue
            shown = shown_by(one, panel, window_ms, end_s)
            title = panel["title"]
            assert shown, title
            if title in PANELS:
                # The difference of two rates is as exact as each of them.
                wanted = PANELS[title](meanwhile)
                within = 2 * (stretched - 1) * max(map(abs, wanted.values()))
                assert shown == pytest.approx(wanted, rel=0, abs=within), title
            else:
                assert title == "99 of 100 reads are faster than"
                assert shown.keys() == meanwhile.slowest().keys()
                for source, (lower, upper) in meanwhile.slowest().items():
                    assert lower / 2 <= shown[source] <= 2 * upper
        assert meanwhile.rate("hits") > 0
        assert meanwhile.rate("misses") > 0
        assert_alerts_are_silent(one, end_s + 0.05)


def shown_by(
    one: Prometheus, panel: Mapping[str, Any], window_ms: int, end_s: float
) -> dict[str, float]:
    """Return the values of a panel by their legends, at the end of a range."""
    shown = {}
    for target in panel["targets"]:
        expr = target["expr"].replace(RATE, f"{window_ms}ms").replace(SELECT, "")
        for labels, value in one.query(expr.replace("{,", "{"), at_s=end_s + 0.05):
            legend = target["legendFormat"].replace("{{instance}} {{member}}", "").strip()
            for name, text in labels.items():
                legend = legend.replace(f"{{{{{name}}}}}", text)
            if not math.isnan(value):
                shown[legend] = value
    return shown


def first_values(one: Prometheus) -> dict[str, float]:
    """Return what the counters of the cache were at the first scrape."""
    found = {}
    for series in one.ask("query", query='{__name__=~"pgflash_cache_.+_total"}[1h]')["result"]:
        name = series["metric"]["__name__"].removeprefix("pgflash_cache_").removesuffix("_total")
        found[name] = float(series["values"][0][1])
    return found


def assert_alerts_are_silent(one: Prometheus, at_s: float) -> None:
    """Fail if an alert's expression has an error, a metric that is not there, or a result."""
    for name, facts in alerts().items():
        assert one.query(facts["expr"], at_s=at_s) == [], name
        for metric in re.findall(r"pgflash_\w+(?=[{\[ ])", facts["expr"]):
            assert one.query(metric, at_s=at_s), f"{name}: there is no {metric}"
