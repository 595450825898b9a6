# SPDX-License-Identifier: PostgreSQL
"""The users of the processors: reading /proc, and finding foreign processes."""

import os
import subprocess
import sys
from pathlib import Path

from pgflash.machine.host import CpuTimes
from pgflash.model.waits import WaitClass
from pgflash_lab import host
from pgflash_lab.sampler import Samples, WaitSample, cpu_second


def test_the_cpu_of_a_buried_child_stays_with_its_parent() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {burn!r}], check=True)
print("done", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = host.server_cpu(process.pid)
        assert process.stdin is not None
        process.stdin.close()
    assert 0.25 <= used.user_s + used.system_s < 5


def test_a_process_that_is_gone_used_nothing_more() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    used = host.server_cpu(process.pid)
    assert used.user_s + used.system_s == 0


def test_a_second_is_shares_that_add_up() -> None:
    before = CpuTimes(user_s=1, idle_s=10)
    after = CpuTimes(user_s=2, system_s=0.5, steal_s=0.5, iowait_s=1, idle_s=11)
    second = cpu_second(before, after, at_s=3.0)
    assert second is not None
    assert (second.user, second.system, second.iowait, second.idle) == (0.25, 0.25, 0.25, 0.25)
    assert second.steal == 0.125  # a part of the system's


def test_no_time_is_no_second() -> None:
    assert cpu_second(CpuTimes(idle_s=1), CpuTimes(idle_s=1), at_s=0.0) is None


def test_wait_samples_add_up_by_class_and_event() -> None:
    samples = Samples(
        waits=[
            WaitSample(at_s=0, backend_type="client backend", wait_type="IO", event=e, count=n)
            for e, n in (("DataFileRead", 3), ("WalSync", 1), ("DataFileRead", 2))
        ]
        + [WaitSample(at_s=1, backend_type="client backend", wait_type="", event="", count=4)]
        + [WaitSample(at_s=1, backend_type="walwriter", wait_type="IO", event="WalSync", count=7)]
    )
    counts = {(one.wait_class, one.event): one.samples for one in samples.wait_counts()}
    assert counts == {
        (WaitClass.USER_IO, "IO:DataFileRead"): 5,
        (WaitClass.COMMIT, "IO:WalSync"): 1,
        (WaitClass.CPU, "CPU"): 4,
        (WaitClass.SYSTEM_IO, "IO:WalSync"): 7,
    }


def test_the_machine_of_a_run_is_known(tmp_path: Path) -> None:
    facts = host.machine_facts(tmp_path)
    assert facts["cores"] == str(os.cpu_count())
    assert facts["kernel"].startswith("Linux")
