# SPDX-License-Identifier: PostgreSQL
"""Random reads by fio, if installed: it keeps more requests under way than Python can.

fio gets a file that is already open and has no name (/proc/self/fd), so it creates nothing and
opens no file of another user.
"""

import json
import shutil
import subprocess
from typing import Any

from pgflash.errors import PgflashError
from pgflash.model.device import DepthPoint

#: How long fio may take beyond its run time, to start and to sum up, on a busy machine.
_SPARE_S = 60


class FioError(PgflashError):
    """fio did not measure."""


def version() -> str:
    """Return "fio 3.33", or nothing if it is not installed."""
    program = shutil.which("fio")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_SPARE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().replace("fio-", "fio ", 1) if done.returncode == 0 else ""


def random_reads(opened: int, *, depth: int, seconds: float, block_bytes: int) -> DepthPoint:
    """Read an open file at random, with this many requests at once."""
    command = [
        *("fio", "--name=pgflash", f"--filename=/proc/self/fd/{opened}", "--readonly"),
        *("--rw=randread", f"--bs={block_bytes}", "--direct=1", "--ioengine=libaio"),
        *(f"--iodepth={depth}", "--time_based", f"--runtime={max(round(seconds), 1)}"),
        *("--thread", "--allow_file_create=0", "--randrepeat=0", "--output-format=json"),
        # The whole time of a request, including its submission.
        *("--lat_percentiles=1", "--clat_percentiles=0"),
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=(opened,),
            timeout=seconds + _SPARE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FioError(f"fio did not end: {error}", hint=_HINT) from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it did not say why"]
        raise FioError(f"fio failed: {lines[-1]}", hint=_HINT)
    return read_result(done.stdout, depth=depth)


def read_result(text: str, *, depth: int) -> DepthPoint:
    """Return what fio's JSON says about reads."""
    try:
        # fio may print something before the JSON.
        told: dict[str, Any] = json.loads(text[text.index("{") :])
        read = told["jobs"][0]["read"]
        latency = read["lat_ns"]
        return DepthPoint(
            depth=depth,
            iops=float(read["iops"]),
            mean_ms=float(latency["mean"]) / 1e6,
            p99_ms=float(latency["percentile"]["99.000000"]) / 1e6,
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FioError(f"fio's result cannot be read: {error!r}", hint=_HINT) from error


_HINT = "--without-fio measures without it."
