# SPDX-License-Identifier: PostgreSQL
"""Metrics are text in the requested format, and contain the values of the readings."""

import re
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pgflash.model.fleet import FleetMember
from pgflash.model.live import DatabaseCounts, Flow, LiveServer, Reading
from pgflash.web.metrics import METRICS, OPENMETRICS, TEXT, Facts, Kind, accepted
from pgflash.web.metrics import render as render_as
from support.promtool import promtool_complaints

SERVER = LiveServer(
    version_num=180004,
    system_identifier="123",
    started_at=datetime(2026, 11, 22, tzinfo=UTC),
    in_recovery=False,
    database='odd"\\\nname',
    role="watcher",
    extension_version='0.1"\\\n<script>',
)
READING = Reading(
    at=datetime(2026, 11, 22, 1, tzinfo=UTC),
    monotonic_s=time.monotonic(),
    started_at=SERVER.started_at,
    sessions=7,
    active=2,
    databases={
        "0": DatabaseCounts(commits=9),
        "5": DatabaseCounts(name='d"b', commits=1_000_000, rollbacks=3),
    },
    wal_bytes=2**60,
    flows={"disk": Flow(calls=10, bytes=81920, time_ms=1500), "page cache": Flow(calls=1)},
    latencies={"disk": {128.0: 4, 0.0: 1, 256.0: 5}, "wal sync": {1024.0: 2}},
    cache={
        "mode": "serve", "mode_reason": "", "hits": 5, "misses": 6, "inserts": 7, "updates": 1,
        "eviction_invalidated": 1, "eviction_aged_out": 2, "eviction_buffer_pinned": 0,
        "size_bytes": 100, "used_bytes": 50, "write_budget_left_bytes": None, "flash_reads": 1,
        "flash_read_bytes": 2, "flash_writes": 3, "flash_write_bytes": 4, "flash_read_errors": 0,
        "saved_ms": 1500.0, "saved_share": 0.6,
        "flash_write_errors": 0, "read_timeouts": 0, "corrupt_slots": 0, "foreign_changes": 0,
        "verify_mismatches": 0,
        "cache_file": "/nvme/cache", "insert_skip_budget": 3, "insert_skip_not_useful": 4,
    },
    devices={"/nvme/cache": "bypassed"},
)  # fmt: skip
FACTS = Facts(
    live=True,
    server=SERVER,
    reading=READING,
    waited_s={"CPU": 1.25, "User I/O": 2.0},
    viewers=1,
    cpu_s=0.5,
)


def render(facts: Facts) -> str:
    return render_as(facts, OPENMETRICS)


_LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (\S+)')


def parsed(text: str) -> dict[str, dict[str, float]]:
    """Return the samples by metric and labels; fails where the text breaks the format's rules."""
    assert text.endswith("# EOF\n")
    families: dict[str, str] = {}
    found: dict[str, dict[str, float]] = {}
    family = ""
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _hash, _type, family, kind = line.split(" ")
            assert family not in families, "a family stands once, in one piece"
            families[family] = kind
        elif line.startswith("# UNIT "):
            _hash, _unit, name, unit = line.split(" ")
            assert (name, name.endswith(f"_{unit}")) == (family, True)
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == family
        else:
            match = _LINE.fullmatch(line)
            assert match is not None, line
            suffix = match[1].removeprefix(family)
            allowed = {
                "counter": {"_total"}, "gauge": {""}, "info": {"_info"}, "stateset": {""},
                "histogram": {"_bucket", "_count", "_sum"},
            }[families[family]]  # fmt: skip
            assert suffix in allowed, line
            samples = found.setdefault(match[1], {})
            assert (match[2] or "") not in samples, "no sample stands twice"
            samples[match[2] or ""] = float(match[3])
    return found


def test_the_text_keeps_the_rules_and_says_what_was_read() -> None:
    found = parsed(render(FACTS))
    assert found["pgflash_up"] == {"": 1}
    assert found["pgflash_transactions_total"] == {
        'database="",result="commit"': 9,
        'database="",result="rollback"': 0,
        'database="d\\"b",result="commit"': 1_000_000,
        'database="d\\"b",result="rollback"': 3,
    }
    assert found["pgflash_wal_generated_bytes_total"][""] == 2**60
    assert found["pgflash_request_bytes_total"]['flow="disk"'] == 81920
    assert found["pgflash_request_wait_seconds_total"]['flow="disk"'] == 1.5
    assert found["pgflash_db_time_seconds_total"]['wait_class="User I/O"'] == 2.0
    assert found["pgflash_cache_hits_total"][""] == 5
    assert found["pgflash_cache_saved_seconds"][""] == 1.5
    assert found["pgflash_cache_saved_ratio"][""] == 0.6
    assert found["pgflash_cache_mode"] == {
        'pgflash_cache_mode="serve"': 1,
        'pgflash_cache_mode="passthrough"': 0,
        'pgflash_cache_mode="offline"': 0,
    }
    assert found["pgflash_cache_configured"][""] == 1
    assert found["pgflash_cache_evictions_total"]['kind="aged out"'] == 2
    assert found["pgflash_cache_insert_skips_total"] == {
        'reason="budget"': 3,
        'reason="not useful"': 4,
    }
    assert {
        labels: value for labels, value in found["pgflash_cache_device_state"].items() if value
    } == {'cache_file="/nvme/cache",pgflash_cache_device_state="bypassed"': 1}
    assert found["pgflash_server_start_time_seconds"][""] == SERVER.started_at.timestamp()


def test_every_metric_is_there_if_it_is_known() -> None:
    standby = FleetMember(name="", address="", role="replica", lag_bytes=1, warmth=0.5)
    text = render(replace(FACTS, member=standby))
    unknown = {metric.name for metric in METRICS if f"# TYPE {metric.name} " not in text}
    assert unknown == {"pgflash_cache_write_budget_left_bytes"}


def test_histograms_run_up_to_their_count_and_sum() -> None:
    found = parsed(render(FACTS))
    buckets = found["pgflash_read_latency_seconds_bucket"]
    # 1 below 1 us, 4 more from 128 to 256, 5 more from 256 to 512; ranges end at powers of 2 ns.
    ends_s = [2**power / 1e9 for power in range(10, 35)]
    assert list(buckets.items()) == [
        *(
            (f'source="disk",le="{end_s}"', 1 if end_s < 256e-6 else 5 if end_s < 512e-6 else 10)
            for end_s in ends_s
        ),
        ('source="disk",le="+Inf"', 10),
    ]
    assert found["pgflash_read_latency_seconds_count"] == {'source="disk"': 10}
    assert found["pgflash_read_latency_seconds_sum"] == {'source="disk"': 1.5}
    # Without the time of syncs there is no sum, and so no count.
    assert not [name for name in found if re.fullmatch("pgflash_wal_sync.*_(sum|count)", name)]
    timed = replace(FACTS, reading=replace(READING, wal_sync_ms=3.0))
    found = parsed(render(timed))
    assert found["pgflash_wal_sync_latency_seconds_sum"] == {"": 0.003}
    assert found["pgflash_wal_sync_latency_seconds_count"] == {"": 2}


def test_several_servers_are_told_apart_by_a_label() -> None:
    silent = replace(FACTS, live=False, server=None, reading=None, waited_s={})
    found = parsed(render_as({'db"1': FACTS, "db2": silent}, OPENMETRICS))
    one, other = 'member="db\\"1"', 'member="db2"'
    assert found["pgflash_up"] == {one: 1, other: 0}
    assert found["pgflash_cache_hits_total"] == {one: 5}
    # pgflash serve is one process, whatever it watches.
    assert found["pgflash_collector_cpu_seconds_total"] == {"": 0.5}
    # Without the label, each is told as if it were alone.
    alone = {
        name: points
        for name, points in parsed(render(FACTS)).items()
        if name not in ("pgflash_collector_cpu_seconds_total", "pgflash_up")
        and "viewers" not in name
        and "age" not in name
    }
    for name, points in alone.items():
        apart = {f"{one},{labels}" if labels else one: value for labels, value in points.items()}
        assert found[name] == apart
    assert promtool_complaints(render_as({'db"1': FACTS, "db2": silent}, TEXT)) == ""
    assert parsed(render_as({}, OPENMETRICS)) == {"pgflash_collector_cpu_seconds_total": {"": 0}}


def test_several_servers_say_who_leads_who_lags_and_who_is_warm() -> None:
    leader = FleetMember(name="db1", address="", role="leader")
    standby = FleetMember(name="db2", address="", role="replica", lag_bytes=4096, warmth=0.75)
    silent = FleetMember(name="db3", address="", role="", problem="it does not answer")
    found = parsed(
        render_as(
            {one.name: replace(FACTS, member=one) for one in (leader, standby, silent)}, OPENMETRICS
        )
    )
    assert found["pgflash_leading"] == {'member="db1"': 1, 'member="db2"': 0}
    assert found["pgflash_replication_lag_bytes"] == {'member="db2"': 4096}
    assert found["pgflash_cache_warmth_ratio"] == {'member="db2"': 0.75}
    assert "pgflash_leading" not in parsed(render(FACTS))


def test_what_is_odd_in_a_label_is_escaped() -> None:
    text = render(FACTS)
    assert 'extension_version="0.1\\"\\\\\\n<script>"' in text
    parsed(text)


def test_what_is_not_known_is_absent_and_not_zero() -> None:
    found = parsed(render(FACTS))
    assert "pgflash_cache_write_budget_left_bytes" not in found
    bare = replace(READING, wal_bytes=None, flows={}, latencies={}, cache={}, devices={})
    found = parsed(render(replace(FACTS, reading=bare)))
    assert not [name for name in found if "cache" in name or "wal" in name or "request" in name]
    nothing = replace(FACTS, live=False, server=None, reading=None, waited_s={})
    found = parsed(render(nothing))
    assert found["pgflash_up"][""] == 0
    assert set(found) == {
        "pgflash_up", "pgflash_collector_viewers", "pgflash_collector_cpu_seconds_total",
    }  # fmt: skip


def test_names_and_units_are_by_the_conventions() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert re.fullmatch(r"pgflash_[a-z_]+", metric.name)
        assert metric.unit in ("", "seconds", "bytes", "ratio")
        assert metric.unit == "" or metric.name.endswith(f"_{metric.unit}")
        assert not metric.name.endswith("_total")
        assert metric.help.endswith(".")
        if metric.kind is Kind.STATESET:
            assert metric.labels[-1] == metric.name


def test_the_labels_are_those_that_are_told_of() -> None:
    text = render(FACTS)
    for metric in METRICS:
        for labels in re.findall(rf"^{metric.name}(?:_[a-z]+)?{{(.*?)}} ", text, re.MULTILINE):
            named = set(re.findall(r'([a-z_]+)="', labels)) - {"le"}
            if metric.name in ("pgflash_server",):
                assert named >= set(metric.labels)
            elif named:
                assert named == set(metric.labels), metric.name


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        # Prometheus 2.42.
        (
            "application/openmetrics-text;version=1.0.0,"
            "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPENMETRICS,
        ),
        ("text/plain, application/openmetrics-text;q=0.5", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=much", TEXT),
    ],
)
def test_the_format_is_the_one_that_is_accepted(accept: str, form: str) -> None:
    assert accepted(accept) == form


def test_the_older_format_says_the_same() -> None:
    old = render_as(FACTS, TEXT)

    def told(text: str) -> set[str]:
        """Return the points, without the one that ages."""
        lines = (line for line in text.splitlines() if not line.startswith("#"))
        return {line for line in lines if not line.startswith("pgflash_collector_reading_age")}

    points, newer = told(old), told(render(FACTS))
    # A histogram whose sum is not known has a count here only.
    assert points - newer == {"pgflash_wal_sync_latency_seconds_count 2"}
    assert newer <= points
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", old, re.MULTILINE))
    assert set(kinds.values()) == {"counter", "gauge", "histogram"}
    assert "# UNIT" not in old
    assert "# EOF" not in old
    for line in points:
        name = line.partition("{")[0].partition(" ")[0]
        assert name in kinds or re.sub("_(bucket|sum|count)$", "", name) in kinds, line


def test_promtool_finds_nothing_to_complain_about() -> None:
    assert promtool_complaints(render_as(FACTS, TEXT)) == ""
    assert promtool_complaints("# TYPE x_total gauge\nx_total 1\n") != ""
