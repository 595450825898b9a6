# SPDX-License-Identifier: PostgreSQL
"""CPU time by its user, while a leader ended and another took over."""

import pytest

from pgflash.machine.host import CpuTimes
from pgflash_lab.failover.usage import EndedLeader, FleetCpu, MemberCpu, cpu_use
from pgflash_lab.host import CpuTime


def times(user_s: float, system_s: float = 0.0) -> CpuTime:
    return CpuTime(user_s=user_s, system_s=system_s)


def member(server_s: float, patroni_s: float) -> MemberCpu:
    return MemberCpu(server=times(server_s), patroni=times(patroni_s))


NOTHING = member(0, 0)


def fleet(at_s: float, busy_s: float, own_s: float, **members: MemberCpu) -> FleetCpu:
    machine = CpuTimes(user_s=busy_s)
    return FleetCpu(at_s=at_s, machine=machine, own_s=own_s, members=members)


BEFORE = fleet(0, 0, 0, alpha=member(10, 4), beta=member(5, 4))


def test_a_killed_leader_has_used_what_it_had_before_its_end() -> None:
    # Of alpha's Patroni, seven seconds became ours when it was reaped; three are of this time.
    after = fleet(60, 100, 7 + 2, alpha=NOTHING, beta=member(25, 5))
    ended = EndedLeader(name="alpha", last=member(30, 7), killed=True)
    used = cpu_use(BEFORE, after, ended, driver_s=0)
    assert used.server_s == pytest.approx((30 - 10) + (25 - 5))
    assert used.driver_s == pytest.approx(2 + (7 - 4) + (5 - 4))
    assert used.foreign_s == pytest.approx(100 - 40 - 6)


def test_a_leader_that_handed_over_has_a_second_server() -> None:
    after = fleet(60, 100, 2, alpha=member(3, 9), beta=member(25, 5))
    ended = EndedLeader(name="alpha", last=member(30, 7), killed=False)
    used = cpu_use(BEFORE, after, ended, driver_s=0)
    assert used.server_s == pytest.approx((30 + 3 - 10) + (25 - 5))
    assert used.driver_s == pytest.approx(2 + (9 - 4) + (5 - 4))
