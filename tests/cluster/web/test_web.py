# SPDX-License-Identifier: PostgreSQL
"""The live page of a real server: it shows the server's own counts, to all viewers alike."""

import json
import math
import re
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest

from pgflash.cli import main
from pgflash.collect.live import LiveReader
from pgflash.session import connect
from pgflash.web.details import Details
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, until
from support.promtool import promtool_complaints
from support.sampled import gap_s, sleeping, slept
from support.served import Served, events, served
from support.terminal import PGFLASH, terminal


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"})
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute('create database "<script>alert(1)</script>"')
    yield server
    factory.close()


@pytest.fixture(scope="module")
def page(server: Server) -> Iterator[Served]:
    with served(server.conninfo(), interval_s=0.2) as one:
        until(lambda: one.collector.ring.newest >= 5)
        yield one


def test_the_first_page_has_its_figures_without_script(page: Served) -> None:
    answer = page.ask("/")
    assert answer.code == 200
    for title in ("Transactions", "Average active sessions", "Requests", "Flash cache"):
        assert re.search(f"<caption[^>]*>{title}", answer.text)
    assert "database postgres" in answer.text


def test_what_the_server_names_is_escaped(server: Server) -> None:
    dsn = server.conninfo(dbname="<script>alert(1)</script>")
    with served(dsn) as one:
        until(lambda: one.collector.server is not None)
        text = one.ask("/").text
        assert "<script>" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        # The extension is not in this database, and the page says so.
        assert "Not available from this server" in text
        # PostgreSQL's own counts are there.
        for title in ("Transactions a second", "Average active sessions", "Requests a second"):
            assert title in text
        assert "Read latency by source" not in text
        samples = [
            e["data"] for e in one.ask("/live/samples").json["messages"] if e["kind"] == "sample"
        ]
        assert samples == [] or samples[-1]["aas"] is not None
        flash = one.ask("/cache")
        assert (flash.code, "<script>" in flash.text) == (200, False)
        assert "There is no flash cache: the extension pgflash is not in database" in flash.text


def test_samples_follow_one_another_and_polling_continues(page: Served) -> None:
    first = page.ask("/live/samples").json
    assert first["status"]["state"] == "live"
    assert first["server"]["database"] == "postgres"
    numbers = [one["number"] for one in first["messages"]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    until(lambda: page.collector.ring.newest > first["next"])
    then = page.ask(f"/live/samples?after={first['epoch']}-{first['next']}").json
    assert then["messages"][0]["number"] == first["next"] + 1
    assert not then["gap"]
    # With another process, everything is new.
    other = page.ask(f"/live/samples?after=00000000-{first['next']}").json
    assert other["messages"][0]["number"] == numbers[0]


def test_a_stream_continues_where_a_sleeper_stopped(page: Served) -> None:
    with page.stream() as stream:
        told = events(stream)
        seen = [next(told) for _ in range(4)]
    assert stream.headers["content-type"].startswith("text/event-stream")
    last = [one for one in seen if "id" in one][-1]
    with page.stream(last=last["id"]) as stream:
        again = next(one for one in events(stream) if "id" in one)
    epoch, _dash, number = last["id"].partition("-")
    assert again["id"] == f"{epoch}-{int(number) + 1}"


def test_a_sleeper_who_slept_too_long_is_told_of_the_gap(server: Server) -> None:
    with served(server.conninfo(), interval_s=0.02) as one:
        one.collector.ring._messages = type(one.collector.ring._messages)(maxlen=5)
        with one.stream() as stream:
            first = next(event for event in events(stream) if "id" in event)
            number = int(first["id"].partition("-")[2])
            until(lambda: one.collector.ring.newest >= number + 20)
        with one.stream(last=first["id"]) as stream:
            kinds = [event["event"] for event, _n in zip(events(stream), range(2), strict=False)]
        assert kinds[0] == "gap"


def test_twenty_viewers_are_read_for_once(server: Server, page: Served) -> None:
    def watch(found: list[str]) -> None:
        with page.stream() as stream:
            for event in events(stream):
                if event["event"] == "sample":
                    found.append(event["data"])
                if len(found) >= 10:
                    return

    seen: list[list[str]] = [[] for _ in range(20)]
    threads = [threading.Thread(target=watch, args=(one,)) for one in seen]
    for thread in threads:
        thread.start()
    with server.connect() as connection:
        # The session of the viewers before them may take a moment to be gone.
        until(
            lambda: (
                connection.execute(
                    "select count(*) from pg_stat_activity where application_name = 'pgflash'"
                ).fetchone()
                == (1,)
            )
        )
    for thread in threads:
        thread.join(PATIENCE_S)
    by_number = [{json.loads(one)["number"]: one for one in found} for found in seen]
    shared = set.intersection(*(set(one) for one in by_number))
    assert shared
    for number in shared:
        assert len({one[number] for one in by_number}) == 1
    until(lambda: not page.collector.viewers)


def test_the_metrics_are_what_the_views_show(server: Server, page: Served) -> None:
    def counted() -> tuple[float, float]:
        with server.connect() as connection:
            return connection.execute(
                "select sum(xact_commit)::float8, "
                "extract(epoch from pg_postmaster_start_time())::float8 from pg_stat_database "
                "where datname = 'postgres'"
            ).fetchone() or (0.0, 0.0)

    before, started = counted()
    newest = page.collector.ring.newest
    until(lambda: page.collector.ring.newest > newest + 1)
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.3,*/*;q=0.1"
    answer = page.ask("/metrics", headers={"Accept": prometheus})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    found = dict(re.findall(r"^(pgflash_\S+) (\S+)$", answer.text, re.MULTILINE))
    commits = float(found['pgflash_transactions_total{database="postgres",result="commit"}'])
    assert before <= commits <= counted()[0]
    assert float(found["pgflash_server_start_time_seconds"]) == pytest.approx(started, abs=0.01)
    assert found["pgflash_up"] == "1"
    assert 'pgflash_cache_mode{pgflash_cache_mode="offline"}' in found


def test_who_asks_for_no_format_gets_metrics_that_promtool_accepts(page: Served) -> None:
    answer = page.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert promtool_complaints(answer.text) == ""


# ---- time ranges


def query(begin: datetime, end: datetime) -> str:
    return urlencode({"from": begin.isoformat(), "to": end.isoformat()})


def test_a_range_tells_what_sessions_did(server: Server, page: Served) -> None:
    unseen = gap_s(server)
    begin, end = slept(server, 1.0)
    unseen = gap_s(server) - unseen
    found = page.ask(f"/live/details?{query(begin, end)}").json
    (sleep,) = [one for one in found["waits"] if one["name"] == "Timeout:PgSleep"]
    assert sleep["wait_class"] == "Application"
    # Exact to one sample at either end; there are ten a second.
    assert 1.0 - unseen - 0.2 <= sleep["seconds"] <= (end - begin).total_seconds() + 0.2
    assert sleep["share"] == pytest.approx(
        sleep["seconds"] / sum(one["seconds"] for one in found["waits"])
    )
    assert found["sessions"][0]["detail"].endswith("in postgres")
    assert sum(one["share"] for one in found["waits"]) == pytest.approx(1.0)
    assert "pg_stat_statements" in str(found["missing"])
    # It contains nothing from before.
    before = page.ask(f"/live/details?{query(begin - timedelta(days=1), begin)}").json
    assert before["begin"] < before["remembered_from"]


def test_one_question_serves_all_who_mark_the_same_range(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long we take.
    monkeypatch.setattr("pgflash.web.details.SETTLED", timedelta(minutes=10))
    monkeypatch.setattr("pgflash.web.details.HISTORY_KEPT_S", 600.0)
    monkeypatch.setattr("pgflash.web.details.UNSETTLED_KEPT_S", 600.0)
    begin, end = slept(server, 0.3)
    details = Details(server.conninfo())
    with connect(server.conninfo()) as connection:
        known = LiveReader(connection).server
    early = begin - timedelta(minutes=50)
    answers = {details.time_range(known, early, begin - timedelta(minutes=20)) for _ in range(5)}
    assert (len(answers), details.asked) == (1, 1)
    # A range that has just ended may still get samples, so it is asked for again after a while.
    details.time_range(known, begin, end)
    details.time_range(known, begin, end)
    assert details.asked == 2
    details._recent.clear()
    details.time_range(known, begin, end)
    assert details.asked == 3
    # So do viewers of the same hours of the repository.
    for _ in range(3):
        details.history(known, early, begin)
    assert details.asked == 4
    details.history(known, early, end)
    assert details.asked == 5
    # The session may have been ended meanwhile.
    with server.connect() as connection:
        assert details._connection is not None
        pid = details._connection.info.backend_pid
        connection.execute("select pg_terminate_backend(%s, 5000)", (pid,))
    details.time_range(known, begin, end + timedelta(seconds=1))
    assert details._connection.info.backend_pid != pid
    details.close()


@pytest.mark.parametrize(
    ("begin", "end", "sentence"),
    [
        ("", "", "from is not a time"),
        ("yesterday", "2026-01-01", "from is not a time"),
        ("2026-01-01", "<script>", "to is not a time"),
        ("2026-01-02", "2026-01-01", "ends before it begins"),
        ("2026-01-01", "2026-01-01", "ends before it begins"),
        ("2026-01-01", "2026-03-01", "longer than 31 days"),
        ("0001-01-01", "2026-01-01", "in the year 1"),
        ("2026-01-01", "9999-12-31T23:59:59-23:59", "in the year 9999"),
        ("2026-01-01", "99999-01-01", "to is not a time"),
    ],
)
def test_absurd_ranges_are_refused_in_a_sentence(
    page: Served, begin: str, end: str, sentence: str
) -> None:
    for answer in (
        page.ask(f"/live/details?{urlencode({'from': begin, 'to': end})}"),
        page.ask("/report", method="POST", body=urlencode({"from": begin, "to": end}).encode()),
    ):
        assert answer.code == 400
        assert sentence in answer.text
        assert "<script>" not in answer.text
        assert len(answer.text.splitlines()) == 1


def test_a_range_makes_its_report_as_a_file(
    server: Server, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.web.details.TAKEN_EVERY_S", 0.0)
    count = "select count(*) from pgflash_snapshots"
    with server.connect() as connection:
        connection.execute("select pgflash_snapshot()")
        begin, end = slept(server, 0.2)
        before = connection.execute(count).fetchone()
        body = query(begin, end).encode()
        # It has just ended: one is taken for it, and serves the next one, too.
        for _ in range(2):
            answer = page.ask("/report", method="POST", body=body)
            assert answer.code == 200
            after = connection.execute(count).fetchone()
            assert before is not None
            assert after == (before[0] + 1,)
        page.ask(f"/live/history?{query(begin, datetime.now(UTC))}")
        assert connection.execute(count).fetchone() == after
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<!DOCTYPE html>" in answer.text[:100] or "<!doctype html>" in answer.text[:100]
    # There was nothing earlier to compare it with: a sentence for programs, a page for people.
    earlier = page.ask("/report", method="POST", body=body + b"&earlier_s=86400")
    assert (earlier.code, "no snapshot at or before" in earlier.text) == (409, True)
    assert earlier.headers["content-type"].startswith("text/plain")
    evil = urlencode({"from": "<script>alert(1)</script>", "to": "2026-01-01"}).encode()
    for sent, code, word in ((body + b"&earlier_s=86400", 409, "no snapshot"), (evil, 400, "From")):
        answer = page.ask("/report", method="POST", headers={"Accept": "text/html"}, body=sent)
        assert (answer.code, word in answer.text) == (code, True)
        assert '<p role="alert"' in answer.text
        assert "<script>" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert page.ask("/report", method="POST", body=body + b"&earlier_s=-5").code == 400
    assert page.ask("/report").code == 405


def test_a_range_is_compared_with_the_same_one_earlier(server: Server, page: Served) -> None:
    with server.connect() as connection:
        connection.execute("select pgflash_snapshot()")
        slept(server, 1.3)
        connection.execute("select pgflash_snapshot()")
        begin, _end = slept(server, 0.2)
        end = begin + timedelta(seconds=0.2)
        (between,) = (
            connection.execute("select max(taken_at) from pgflash_snapshots").fetchone() or ()
        )
        connection.execute("select pgflash_snapshot()")
    # By whole seconds back to where it ends before the second one, which may have taken long.
    earlier_s = math.ceil((end - between).total_seconds())
    times_and_earlier = {"from": begin.isoformat(), "to": end.isoformat(), "earlier_s": earlier_s}
    body = urlencode(times_and_earlier).encode()
    answer = page.ask("/report", method="POST", body=body)
    assert answer.code == 200, answer.text
    assert 'filename="pgflash-compare.html"' in answer.headers["content-disposition"]
    (found,) = re.findall(
        r"<h1>PostgreSQL comparison: snapshots (\d+) to (\d+) and (\d+) to (\d+)", answer.text
    )
    assert found[2] == found[1] != found[0]
    assert found[3] > found[2]


def test_pg_monitor_is_enough_for_every_page(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.web.details.TAKEN_EVERY_S", 0.0)
    with server.connect() as connection:
        connection.execute("create role onlooker login in role pg_monitor")
        connection.execute("select pgflash_snapshot()")
        begin, end = slept(server, 0.3)
    with served(f"{server.conninfo()} user=onlooker", interval_s=0.1) as one:
        until(lambda: one.collector.ring.newest >= 5)
        assert one.collector.server is not None
        assert one.collector.server.missing == {}
        found = one.ask(f"/live/details?{query(begin, end)}").json
        assert found["waits"]
        assert found["sessions"][0]["detail"].endswith("in postgres")
        for path in ("/", "/cache", "/live/cache", "/metrics"):
            answer = one.ask(path)
            assert (answer.code, "permission denied" in answer.text) == (200, False), path
        assert one.ask("/report", method="POST", body=query(begin, end).encode()).code == 200
        assert one.ask(f"/live/history?{query(begin, end)}").json["rows"]


def test_the_busy_one_of_a_thousand_relations_is_found(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the others took before."""
    monkeypatch.setattr("pgflash.live.collector.FILES_PART", 0)
    with server.connect() as connection:
        connection.execute(
            "do $$ begin for i in 1..1000 loop "
            "execute format('create table many_%s (n) as select 1', i); end loop; end $$"
        )
        connection.execute("checkpoint")
    with served(server.conninfo(), interval_s=0.1) as one, one.collector.watched():
        segments = one.collector.segments
        until(lambda: len(segments._known) > 1000)
        with server.connect() as connection:
            (begin,) = connection.execute("select clock_timestamp()").fetchone() or ()
            connection.execute(
                "create table busy as select repeat('x', 900) from generate_series(1, 9000)"
            )

        def named() -> list[str]:
            times = query(begin, datetime.now(UTC) + timedelta(seconds=10))
            told = one.ask(f"/live/details?{times}").json["segments"]
            return [row["name"] for row in told]

        until(lambda: "busy" in named())


def test_a_server_that_goes_is_said_to_viewers_and_so_is_its_return(server: Server) -> None:
    with served(server.conninfo(), interval_s=0.1) as one, one.stream() as stream:
        told = events(stream)
        while next(told)["event"] != "sample":
            pass
        server.stop("immediate")
        lost = next(
            event for event in told if event["event"] == "status" and "lost" in event["data"]
        )
        assert json.loads(lost["data"])["sentence"]
        server.start()
        for event in told:
            if event["event"] == "status" and json.loads(event["data"])["state"] == "live":
                break


# ---- pgflash top


def test_top_shows_the_essentials_and_ends(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["top", "--dsn", server.conninfo(), "--every", "0.2", "--seconds", "2"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.count("Transactions") == 2
    assert "Requests/s" in text
    assert "Traceback" not in text
    assert main([*words, "--format", "json"]) == 0
    samples = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(samples) == 2
    assert samples[0]["number"] < samples[1]["number"]


def test_top_says_in_a_sentence_that_there_is_no_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["top", "--dsn", "host=/nowhere dbname=x", "--seconds", "1"]) == 1
    captured = capsys.readouterr()
    assert "could not connect" in captured.err
    assert "HINT: " in captured.err


def test_top_fits_a_small_terminal_and_is_refreshed_in_place(server: Server) -> None:
    command = [*PGFLASH, "top", "--dsn", server.conninfo(), "--every", "0.2"]
    with terminal(command) as one:
        while one.text.count("Commits/s") < 3:
            one.read()
        one.child.send_signal(signal.SIGINT)
        one.rest()
        assert one.child.returncode == 130
    seen = one.codes_and_text
    # On the alternate screen, which is left at the end, and redrawn from its first line.
    assert "\x1b[?1049h" in seen
    assert "\x1b[?1049l" in seen
    # Messages about the session remain on the normal screen.
    assert "is a superuser" in seen[: seen.index("\x1b[?1049h")]
    screens = [one for one in seen.split("\x1b[H")[1:] if "Commits/s" in one]
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screens[-2])
    lines = last.replace("\r", "").split("\n")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for title in ("Transactions", "Requests", "Flash cache"):
        assert title in last, last


def test_top_fills_a_large_window_with_sql_and_ends_with_q(server: Server) -> None:
    command = [*PGFLASH, "top", "--dsn", server.conninfo(), "--every", "0.2"]
    with terminal(command, columns=140, lines=50) as one:
        before = termios.tcgetattr(one.end)
        with sleeping(server):
            one.until("Timeout:PgSleep")
            one.until("q: quit")
        one.type("q")
        while "\x1b[?1049l" not in one.codes_and_text:
            one.read()
        one.child.wait(PATIENCE_S)
        assert one.child.returncode == 0
        assert termios.tcgetattr(one.end) == before
    seen = one.codes_and_text
    screens = [one for one in seen.split("\x1b[H")[1:] if "PgSleep" in one]
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screens[0]).replace("\r", "")
    lines = last.split("\n")
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 140
    for title in ("Top SQL, last minute", "Top waits, last minute", "Top sessions, last minute"):
        assert title in last, last


def test_top_is_ended_by_an_interrupt_and_leaves_no_session(server: Server) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "pgflash", "top", "--dsn", server.conninfo(), "--every", "0.2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    while "Transactions" not in child.stdout.readline():
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _out, complaint = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert "Traceback" not in complaint
