# SPDX-License-Identifier: PostgreSQL
"""Whose the processors were: reading /proc, and what is foreign."""

import os
import subprocess
import sys
from pathlib import Path

from pgflash.model.waits import WaitClass
from pgflash_lab import host
from pgflash_lab.sampler import Samples, WaitSample, cpu_second

TICKS = host.TICKS_PER_S


def machine(**seconds: float) -> host.MachineCpu:
    zero = dict.fromkeys(("user_s", "system_s", "iowait_s", "idle_s", "steal_s"), 0.0)
    return host.MachineCpu(**{**zero, **seconds})


def test_the_first_line_of_proc_stat_is_seconds_by_state() -> None:
    numbers = [n * TICKS for n in (10, 2, 5, 100, 7, 1, 3, 4, 50, 50)]
    line = "cpu  " + " ".join(map(str, numbers)) + "\ncpu0 1 2 3\n"
    found = host.parse_machine_cpu(line)
    assert found == machine(user_s=12, system_s=9, iowait_s=7, idle_s=100, steal_s=4)
    assert found.busy_s == 25


def test_an_old_kernels_short_line_is_read() -> None:
    line = f"cpu {TICKS} 0 {TICKS} {TICKS}\n"
    assert host.parse_machine_cpu(line) == machine(user_s=1, system_s=1, idle_s=1)


def test_a_process_may_have_any_name() -> None:
    fields = ["S", "1"] + ["0"] * 9 + [str(3 * TICKS), str(2 * TICKS), str(TICKS), str(TICKS)]
    stat = "42 (a) b (c d) " + " ".join([*fields, "20", "0"])
    alone = host.parse_process_cpu(stat, buried=False)
    assert (alone.user_s, alone.system_s) == (3, 2)
    whole = host.parse_process_cpu(stat, buried=True)
    assert (whole.user_s, whole.system_s) == (4, 3)


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


def test_the_machine_has_as_many_cores_as_the_system_says() -> None:
    assert host.core_count() == os.cpu_count()


def test_a_second_is_shares_that_add_up() -> None:
    before = machine(user_s=1, idle_s=10)
    after = machine(user_s=2, system_s=0.5, steal_s=0.5, iowait_s=1, idle_s=11)
    second = cpu_second(before, after, at_s=3.0)
    assert second is not None
    assert (second.user, second.system, second.iowait, second.idle) == (0.25, 0.25, 0.25, 0.25)


def test_no_time_is_no_second() -> None:
    assert cpu_second(machine(idle_s=1), machine(idle_s=1), at_s=0.0) is None


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


def test_memory_and_file_systems_are_known(tmp_path: Path) -> None:
    assert host.available_memory_bytes() > 2**20
    facts = host.machine_facts(tmp_path)
    assert facts["cores"] == str(os.cpu_count())
    assert facts["kernel"].startswith("Linux")
