# SPDX-License-Identifier: PostgreSQL
"""The command line: forms of output, errors in one line, exit codes."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest

from pgflash import cli
from pgflash.cli import main
from pgflash_lab.model.run import Run
from pgflash_lab.store import write_run
from support.commands import failure, output
from support.patience import PATIENCE_S
from support.runs import run_of, whole_run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store that holds one finished run."""
    run = whole_run()
    write_run(tmp_path / "runs" / run.id, run)
    return tmp_path


def test_the_list_names_scenarios_presets_and_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = output(capsys, "lab", "list")
    assert "oltp-approaches: " in text
    assert "demo" in text
    assert "warehouses=20" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_list_as_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(output(capsys, "lab", "list", "--format", "json"))
    names = [one["scenario"] for one in listed]
    assert {"flash-cache", "oltp-approaches"} <= set(names)
    rows = list(csv.DictReader(io.StringIO(output(capsys, "lab", "list", "--format", "csv"))))
    approaches = {row["scenario"]: row["approaches"].split() for row in rows}
    assert approaches["flash-cache"][0] == "baseline"
    assert approaches["failover"][0] == "cold-standby"


def test_show_as_json_is_the_result(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    text = output(capsys, "lab", "show", "latest", "--store", str(store), "--format", "json")
    found = json.loads(text)
    assert found["ratios"]["flash-cache/baseline"] == pytest.approx(1.5)


def test_show_as_csv_has_a_row_for_each_approach(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    text = output(capsys, "lab", "show", "latest", "--store", str(store), "--format", "csv")
    rows = {row["approach"]: row for row in csv.DictReader(io.StringIO(text))}
    assert float(rows["all-on-flash"]["tpm"]) == 100_000
    assert rows["baseline"]["hit_ratio"] == ""
    assert len(rows) == 5


def test_show_as_table_says_the_result_without_colour(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    text = output(capsys, "lab", "show", "latest", "--store", str(store))
    assert "\x1b" not in text
    assert "WAL on flash + flash cache" in text
    assert "4.00" in text
    assert "The devices were emulated" in text


def test_show_without_a_run_lists_them(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert whole_run().id in output(capsys, "lab", "show", "--store", str(store))


def test_an_empty_store_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no run" in output(capsys, "lab", "show", "--store", str(tmp_path))
    assert "there is no run" in failure(
        capsys, 1, "lab", "show", "latest", "--store", str(tmp_path)
    )


def test_a_report_is_rendered_again_beside_the_run(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    folder = store / "runs" / whole_run().id
    output(capsys, "lab", "report", "latest", "--store", str(store))
    assert "<!DOCTYPE html>" in (folder / "report.html").read_text()[:200]
    assert json.loads((folder / "result.json").read_text())["run"] == whole_run().id


def test_a_report_can_go_to_a_file_or_to_standard_output(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    run_file = store / "runs" / whole_run().id / "run.json"
    target = tmp_path / "page.html"
    output(capsys, "lab", "report", str(run_file), "-o", str(target))
    piped = output(capsys, "lab", "report", str(run_file), "-o", "-")
    assert target.read_text() == piped


def test_a_broken_run_is_one_line_and_a_hint(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"id": "x"')
    text = failure(capsys, 1, "lab", "show", str(path))
    assert text.startswith("pgflash: ")
    assert "is not a run" in text
    assert "HINT:" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lab", "run", "nothing"), 'no scenario "nothing"'),
        (("lab", "run", "oltp-approaches", "--preset", "x"), 'no preset "x"'),
        (("lab", "run", "oltp-approaches", "--set", "clients"), "key=value"),
        (("lab", "run", "oltp-approaches", "--set", "clients=x"), "for clients"),
        (("lab", "run", "oltp-approaches", "--hdd", "/tmp"), "--hdd and --flash go together"),
        (("lab", "run", "oltp-approaches", "--read-iops", "9"), "--read-iops needs a folder"),
        (("lab", "run", "oltp-approaches", "--memory", "4GB"), "--memory needs --read-iops"),
        (("lab", "run", "oltp-approaches", "--format", "xml"), "'xml' is not one of"),
        (("lab", "frobnicate"), "No such command"),
    ],
)
def test_what_is_asked_wrongly_ends_with_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert message in failure(capsys, 2, *words)


def test_a_pg_config_that_is_none_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = str(tmp_path / "pg_config")
    words = ("lab", "run", "oltp-approaches", "--pg-config", wrong)
    assert "could not run" in failure(capsys, 1, *words)


@pytest.mark.parametrize(
    "words", [(), ("lab",), ("lab", "run"), ("lab", "show"), ("lab", "report"), ("lab", "list")]
)
def test_every_command_has_help_with_an_example(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    text = output(capsys, *words, "--help")
    assert "Usage: pgflash" in text
    assert "Example" in text


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("baseline",),
        ("cache",),
        ("devices",),
        ("fleet",),
        ("lab",),
        ("memory",),
        ("place",),
        ("plan",),
    ],
)
def test_a_window_of_80_columns_shows_what_each_command_does_in_full(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = output(capsys, *words, "--help").partition("\nCommands:\n")[2].partition("\n\n")[0]
    lines = listed.splitlines()
    assert lines
    # click ends what it cuts with dots.
    assert [line for line in lines if len(line) > 80 or line.endswith("...")] == []


def test_an_unexpected_error_is_one_line_unless_debugging(
    capsys: pytest.CaptureFixture[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(_run: Run) -> str:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("pgflash_lab.api.render_report", explode)
    words = ("lab", "report", "latest", "--store", str(store), "-o", "-")
    assert "unexpected ZeroDivisionError: boom" in failure(capsys, 1, *words)
    assert main(["--debug", *words]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_ends_with_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pgflash_lab.api.order_one", interrupted)
    text = failure(capsys, 130, "lab", "run", "oltp-approaches")
    assert text.lstrip() == "pgflash: interrupted; everything that it started has been stopped.\n"


def test_a_stopped_run_is_listed_as_stopped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_run(tmp_path / "runs" / "a", run_of(id="a", stopped="interrupted"))
    assert "stopped: interrupted" in output(capsys, "lab", "show", "--store", str(tmp_path))


def test_a_broken_run_among_others_is_listed_as_such(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    broken = store / "runs" / "0-broken" / "run.json"
    broken.parent.mkdir()
    broken.write_text("{")
    text = output(capsys, "lab", "show", "--store", str(store))
    assert "0-broken" in text
    assert "cannot be read" in text
    assert whole_run().id in text


def test_a_folder_that_cannot_be_written_is_known_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash_lab.run.library_path", lambda: Path("built"))
    (tmp_path / "file").touch()
    words = ("--set", "approaches=baseline", "--out", str(tmp_path / "file" / "run"))
    complaint = failure(capsys, 1, "lab", "run", "oltp-approaches", *words)
    assert "could not write to" in complaint
    assert "--out" in complaint


def test_an_emulator_that_is_not_built_is_known_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGFLASH_EMULATOR_FOLDER", str(tmp_path))
    words = ("--set", "approaches=baseline", "--store", str(tmp_path))
    complaint = failure(capsys, 1, "lab", "run", "oltp-approaches", *words)
    assert "libpgflash_emulator.so" in complaint


def test_the_program_starts_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgflash", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("pgflash, version ")


SLOW_LIBRARY = """
import time
print("importing", flush=True)
time.sleep(600)
"""


def test_ctrl_c_while_it_still_starts_ends_it_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(SLOW_LIBRARY)
    with subprocess.Popen(
        [sys.executable, "-m", "pgflash", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_ends_a_command_as_ctrl_c_does(
    monkeypatch: pytest.MonkeyPatch, ignored: bool
) -> None:
    """Unless nohup started it."""

    def work(**_options: object) -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.01)
        return 7

    monkeypatch.setattr(cli.command, "main", work)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        assert cli.main([]) == (7 if ignored else cli.EXIT_INTERRUPTED)
        assert signal.getsignal(signal.SIGHUP) is (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


class Thing:
    """Something that Python removes."""


def test_an_interrupt_while_an_object_is_removed_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(_ref: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass  # Python looks for signals here; what they raise ends nothing but this function
        pytest.fail("the signal did not come")

    def work(**_options: object) -> int:
        thing = Thing()
        ref = weakref.ref(thing, end)
        del thing
        time.sleep(PATIENCE_S)
        return ref() is None

    monkeypatch.setattr(cli.command, "main", work)
    before = signal.getsignal(signal.SIGALRM)
    assert cli.main([]) == cli.EXIT_INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGALRM) is before
