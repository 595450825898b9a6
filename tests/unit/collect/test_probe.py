# SPDX-License-Identifier: PostgreSQL
"""Probing a device: the measurements are consistent, and nothing is left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pgflash.analyze.ranks import percentile
from pgflash.collect import fio
from pgflash.collect import probe as probing
from pgflash.collect.probe import DEPTHS, ProbeError, probe
from pgflash.errors import PgflashError, UsageError
from pgflash.model.device import Probe
from pgflash.model.probes import (
    ProbedDevice,
    StoredProbeError,
    probe_from_json,
    probe_to_json,
)
from pgflash.progress import Listener
from support.patience import PATIENCE_S, until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine write the whole file, and the steps that read be short."""
    monkeypatch.setattr(probing, "_WRITE_STEPS", 1000)


def measured(folder: Path, *, use_fio: bool = True) -> Probe:
    return probe(folder, at="", size_bytes=16 * 2**20, seconds=0.1, use_fio=use_fio)


class Titles(Listener):
    def __init__(self) -> None:
        self.heard = list[str]()

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        self.heard.append(title)


def test_a_probe_measures_every_depth_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("untouched")
    listener = Titles()
    found = probe(
        tmp_path,
        at="2026-11-22T10:00:00Z",
        size_bytes=16 * 2**20,
        seconds=0.1,
        use_fio=False,
        listener=listener,
    )
    assert tuple(point.depth for point in found.random_reads) == DEPTHS
    assert len(listener.heard) == 3 + len(DEPTHS)
    assert found.by == "pgflash"
    for point in found.random_reads:
        # By Little's law the requests under way are rate times time; a thread's own work and
        # the end of the step take something away, and nothing adds to it.
        under_way = point.iops * point.mean_ms / 1000
        assert 0 < under_way <= point.depth * 1.02
        assert point.p99_ms >= 0
    assert found.sync_p99_ms > 0
    assert found.read_bytes_s > 0
    assert found.write_bytes_s > 0
    assert {one.name for one in tmp_path.iterdir()} == {"mine"}
    assert (tmp_path / "mine").read_text() == "untouched"


def test_reads_come_from_the_device_and_not_from_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: list[int] = []
    kept = os.open

    def noted(path: str | Path, flag: int, *rest: int) -> int:
        flags.append(flag)
        return kept(path, flag, *rest)

    monkeypatch.setattr(os, "open", noted)
    measured(tmp_path, use_fio=False)
    assert any(flag & os.O_DIRECT for flag in flags)
    assert not any(flag & os.O_CREAT and not flag & os.O_EXCL for flag in flags)


@pytest.mark.parametrize("nameless", [True, False])
def test_the_file_has_no_name_while_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:  # as on a file system that does not make such files
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_CREAT)
    with probing._file(tmp_path) as opened:
        assert os.fstat(opened).st_nlink == 0
        assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_refuses_direct_io_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = os.open

    def refuse(path: str | Path, flag: int, *rest: int, dir_fd: int | None = None) -> int:
        if flag & os.O_DIRECT:
            # Some have created the file when they report the error.
            os.close(kept(path, flag & ~(os.O_DIRECT | os.O_TMPFILE), *rest, dir_fd=dir_fd))
            raise OSError(22, "Invalid argument")
        return kept(path, flag, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ProbeError, match="refuses direct I/O"):
        measured(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_measured_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        probe(tmp_path / "gone", at="")
    with pytest.raises(UsageError, match="too small"):
        probe(tmp_path, at="", size_bytes=1000)
    with pytest.raises(UsageError, match="not enough for a file"):
        probe(tmp_path, at="", size_bytes=2**60)


def test_a_folder_that_may_not_be_written_is_refused() -> None:
    with (
        pytest.raises(PgflashError, match="could not write"),
        probing._file(Path("/proc")),
    ):
        pass


def test_a_folder_that_may_not_be_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(UsageError, match="is not a folder"):
        probe(Path("/hidden/data"), at="")


def test_an_error_of_a_request_ends_the_probe_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_opened: int, _pages: object, _place: int) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    before = threading.active_count()
    with pytest.raises(ProbeError, match="Input/output error"):
        measured(tmp_path, use_fio=False)
    assert threading.active_count() <= before


def test_a_slow_device_gets_a_smaller_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = os.pwritev

    def slow(opened: int, pieces: list[memoryview], place: int) -> int:
        if len(pieces[0]) > probing.BLOCK_BYTES:
            time.sleep(0.05)
        return kept(opened, pieces, place)

    monkeypatch.setattr(os, "pwritev", slow)
    monkeypatch.setattr(probing, "_WRITE_STEPS", 10)
    # A busy machine must write so much, and read something, in the time that it gets.
    monkeypatch.setattr(probing, "SIZE_MIN", 4 * 2**20)
    found = probe(tmp_path, at="", size_bytes=2**30, seconds=0.3, use_fio=False)
    # Four writers of 1 MB each 50 ms and no faster, and never a gigabyte in 3 s.
    assert found.write_bytes_s < 4 * 2**20 / 0.05
    monkeypatch.setattr(probing, "SIZE_MIN", 2**30)
    with pytest.raises(ProbeError, match="too slow"):
        probe(tmp_path, at="", size_bytes=2**30, seconds=0.01, use_fio=False)


def test_a_probe_that_is_interrupted_leaves_no_file_and_no_thread(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom pgflash.collect.probe import probe\n"
        "from pgflash.progress import Listener\n"
        "listener = Listener()\n"
        "listener.stage = lambda title, **_: print(title, flush=True)\n"
        "probe(Path(sys.argv[1]), at='', size_bytes=2**24, seconds=3600, use_fio=False,"
        " listener=listener)"
    )
    for number in (signal.SIGINT, signal.SIGKILL):
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert child.stdout is not None
        while "reading" not in child.stdout.readline():
            assert child.poll() is None
        child.send_signal(number)
        assert child.wait(timeout=PATIENCE_S) != 0
        child.stdout.close()
        assert list(tmp_path.iterdir()) == []


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(one) for one in range(1, 101)]
    assert percentile(values, 0.99) == 99
    assert percentile([7.0], 0.99) == 7
    assert percentile([1.0, 2.0], 0.5) == 1


# ---- fio

FIO_SAYS = {
    "jobs": [
        {
            "read": {
                "iops": 2000.5,
                "lat_ns": {"mean": 1_500_000.0, "percentile": {"99.000000": 4_000_000}},
                "clat_ns": {"mean": 1.0},
            }
        }
    ]
}


def test_what_fio_says_is_read() -> None:
    point = fio.read_result("fio: a note\n" + json.dumps(FIO_SAYS), depth=3)
    assert (point.depth, point.iops, point.mean_ms, point.p99_ms) == (3, 2000.5, 1.5, 4.0)


@pytest.mark.parametrize("text", ["", "{", "{}", '{"jobs": []}', '{"jobs": [{"read": 1}]}'])
def test_what_is_no_result_of_fio_is_refused(text: str) -> None:
    with pytest.raises(fio.FioError, match="cannot be read"):
        fio.read_result(text, depth=1)


def _program(folder: Path, body: str) -> None:
    program = folder / "fio"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def test_fio_is_given_the_open_file_and_its_result_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    target = tmp_path / "on"
    target.mkdir()
    _program(
        programs,
        'test "$1" = --version && { echo fio-3.99; exit; }\n'
        'for word; do case "$word" in --filename=*) file=${word#*=};; esac; done\n'
        'test "$(stat -Lc %h,%s "$file")" = 0,16777216 || { echo "not that file" >&2; exit 1; }\n'
        f"cat <<END\n{json.dumps(FIO_SAYS)}\nEND",
    )
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    found = measured(target)
    assert found.by == "fio 3.99"
    assert [point.iops for point in found.random_reads] == [2000.5] * len(DEPTHS)
    assert list(target.iterdir()) == []


def test_a_failing_fio_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(
        tmp_path, 'test "$1" = --version && echo fio-3.99 || { echo "no libaio" >&2; exit 1; }'
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(fio.FioError, match="no libaio"):
        measured(tmp_path)


@pytest.mark.skipif(not shutil.which("fio"), reason="there is no fio: apt-get install fio")
def test_fio_and_we_measure_the_same(tmp_path: Path) -> None:
    """One pair of measurements agrees; others may not, if the machine is busy."""

    def agrees() -> bool:
        theirs = probe(tmp_path, at="", size_bytes=2**26, seconds=1.0)
        ours = probe(tmp_path, at="", size_bytes=2**26, seconds=1.0, use_fio=False)
        assert theirs.by.startswith("fio ")
        return 1 / 3 < theirs.random_reads[0].iops / ours.random_reads[0].iops < 3

    until(agrees)


# ---- stored


def test_a_probe_is_kept_and_read_again(tmp_path: Path) -> None:
    kept = ProbedDevice(
        name="sda1",
        mount_point="/",
        folder=str(tmp_path),
        probe=measured(tmp_path, use_fio=False),
    )
    assert probe_from_json(probe_to_json(kept), name="p.json") == kept
    assert kept.probe.read_ms(4) == kept.probe.random_reads[1].mean_ms
    assert kept.probe.read_ms(5) is None


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b'{"format": "x"}'])
def test_a_file_that_is_no_probe_is_refused(text: bytes) -> None:
    with pytest.raises(StoredProbeError, match=r'"p.json" is not a probe'):
        probe_from_json(text, name="p.json")
