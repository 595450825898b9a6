# SPDX-License-Identifier: PostgreSQL
"""pgflash advise: an answer that begins with a sentence, in four forms; plans; errors."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from pgflash.api import render_period
from pgflash.cli import main
from pgflash.model.device import DepthPoint, Probe
from pgflash.model.plan import MoveKind, MoveState, Record
from pgflash.model.probes import ProbedDevice, probe_to_json
from pgflash.place.journal import read_plan, write_plan
from pgflash_lab.model.paper import read_paper
from support.awr_form import html_report
from support.awr_reports import REPORT_11
from support.few import few

SEGMENTS = (("stock", "table", 12_000.0, 10.0), ("stock_pkey", "index", 8_000.0, 0.0))


@pytest.fixture
def kept(tmp_path: Path) -> str:
    path = tmp_path / "kept.json"
    path.write_text(render_period(few(segments=SEGMENTS), "json"))
    return str(path)


def test_the_answer_begins_with_a_sentence(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", kept]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Storage is the bottleneck: 94 % of DB time waits for it")
    assert "Everything on flash" in shown
    assert "stock_pkey" in shown


def test_json_holds_what_the_table_shows(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", kept, "--format", "json", "--users", "50"]) == 0
    advice = json.loads(capsys.readouterr().out)
    assert advice["bottleneck"]["is_storage"]
    assert {way["name"] for way in advice["approaches"]} >= {"wal-on-flash", "all-on-flash"}
    assert [one["name"] for one in advice["objects"]] == ["stock", "stock_pkey"]
    assert all(way["ratio"] >= 1 for way in advice["approaches"])


def test_csv_has_the_approaches_of_json(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", kept, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["advise", kept, "--format", "json"]) == 0
    ways = json.loads(capsys.readouterr().out)["approaches"]
    assert [row["name"] for row in rows] == [way["name"] for way in ways]
    assert [float(row["ratio"]) for row in rows] == [way["ratio"] for way in ways]


def test_markdown_has_a_row_for_each_way(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", kept, "--format", "md"]) == 0
    shown = capsys.readouterr().out
    assert "| WAL on flash" in shown
    assert "| :-- | --: |" in shown


def test_an_awr_report_is_answered_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "awrrpt.html"
    path.write_text(html_report(read_paper("000").exhibit("fig-3")))
    assert main(["advise", "--awr", str(path), "--cores", "25"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Storage is the bottleneck: 95 % of DB time waits for it (55 % reads")
    assert "Transactions are the waits for log file sync." in shown


def test_a_report_in_utf_16_is_read_and_the_databases_size_judges_a_flash_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "awrrpt.txt"
    path.write_text(REPORT_11, encoding="utf-16")
    sizes = ["--database-size", "104GB", "--flash-bytes", "54GB"]
    assert main(["advise", "--awr", str(path), *sizes, "--format", "json"]) == 0
    advice = json.loads(capsys.readouterr().out)
    cache = next(way for way in advice["approaches"] if way["name"] == "flash-cache")
    # Hits grow to the end, so all of the flash pays; the redo log takes 2 GB of it beside a cache.
    assert cache["flash_bytes"] == 54 * 2**30
    assert 0.6 < cache["hit_ratio"] < 0.98
    everything = next(way for way in advice["approaches"] if way["name"] == "all-on-flash")
    assert everything["flash_bytes"] == 106 * 2**30
    assert not everything["fits"]


def test_a_plan_is_written_where_it_is_asked_for(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    words = ["--approach", "hot-objects", "--tablespace", "fast", "--flash", "/mnt/flash"]
    assert main(["advise", kept, *words, "--plan", str(plan)]) == 0
    moves = read_plan(plan).moves
    assert [move.kind for move in moves] == [MoveKind.TABLE, MoveKind.INDEX, MoveKind.WAL]
    assert f"Plan: {plan} (3 moves)" in capsys.readouterr().out


def test_the_free_space_of_a_plans_folder_is_the_flash_that_there_is(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--approach", "wal-on-flash", "--plan", str(tmp_path / "plan.json")]
    words += ["--format", "json", "--flash", str(tmp_path)]
    assert main(["advise", kept, *words]) == 0
    # At most what is free there, less what a move leaves.
    found = json.loads(capsys.readouterr().out)["flash_bytes"]
    assert 0 <= found < shutil.disk_usage(tmp_path).total
    assert main(["advise", kept, *words, "--flash-bytes", "745GB"]) == 0
    assert json.loads(capsys.readouterr().out)["flash_bytes"] == 745 * 2**30


def test_a_plan_of_which_something_was_made_is_not_written_over(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    words = ["advise", kept, "--approach", "wal-on-flash", "--flash", "/mnt/flash"]
    for _time in range(2):
        assert main([*words, "--plan", str(path)]) == 0
    begun = read_plan(path).with_record(0, Record(state=MoveState.UNDOING, was="/old"))
    write_plan(path, begun)
    capsys.readouterr()
    assert main([*words, "--plan", str(path)]) == 2
    assert "contains moves that were made" in capsys.readouterr().err
    assert read_plan(path) == begun
    (tmp_path / "notes.txt").write_text("my own")
    assert main([*words, "--plan", str(tmp_path / "notes.txt")]) == 1
    assert (tmp_path / "notes.txt").read_text() == "my own"


def test_one_device_is_not_probed_as_array_and_flash(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "array.json", tmp_path / "flash.json"]
    for path in paths:
        probe = Probe(
            random_reads=(DepthPoint(depth=1, iops=200.0, mean_ms=5.0, p99_ms=9.0),),
            read_bytes_s=1e8,
            write_bytes_s=1e8,
            sync_ms=5.0,
            sync_p99_ms=9.0,
            by="pgflash",
            at="2026-11-22T10:00:00+00:00",
        )
        made = ProbedDevice(name="vda", mount_point="/", folder=str(tmp_path), probe=probe)
        path.write_bytes(probe_to_json(made))
    words = [word for path in paths for word in ("--probe", str(path))]
    assert main(["advise", kept, *words]) == 2
    assert "both probes are of the same device (vda)" in capsys.readouterr().err


def test_prices_are_told_of_a_kept_report_too(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        "\n".join(
            f'[[device]]\nname = "{name}"\ndrives = 2\nraid = "raid10"\nunit_price = {price}\n'
            'currency = "EUR"\ncapacity = "300GB"\nsource = "an offer"'
            for name, price in (("array", 100.0), ("flash", 500.0))
        )
    )
    assert main(["advise", kept, "--prices", str(prices), "--format", "json"]) == 0
    ways = {w["name"]: w for w in json.loads(capsys.readouterr().out)["approaches"]}
    # Two drives of 500 for the transactions of a minute that are predicted.
    everything = ways["all-on-flash"]
    assert everything["currency"] == "EUR"
    assert everything["cost_per_1000_tpm"] == pytest.approx(1000 / (0.06 * everything["per_s"]))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--awr", "no-such-file.html"], 'could not read "no-such-file.html"'),
        (["--awr", "x", "--from", "1"], "--awr needs no snapshots"),
        (["--awr", "x", "--plan", "plan.json"], "a plan moves objects of PostgreSQL"),
        (["--awr", "x", "--flash", "/flash"], "HINT: Say with --flash-bytes how much flash"),
        (["report.json", "--flash", "/flash"], "HINT: Say with --flash-bytes how much flash"),
        (["--store", "x", "--flash", "/flash"], "HINT: Say with --flash-bytes how much flash"),
        (["--database-size", "1GB"], "the size of a server is known"),
        (["no-such-report.json"], 'could not read "no-such-report.json"'),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *words]) in (1, 2)
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_a_plan_without_a_tablespace_says_how_to_make_one(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "plan.json")
    assert main(["advise", kept, "--approach", "hot-objects", "--plan", path]) == 2
    assert "CREATE TABLESPACE flash" in capsys.readouterr().err
    assert not (tmp_path / "plan.json").exists()
