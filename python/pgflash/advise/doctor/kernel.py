# SPDX-License-Identifier: PostgreSQL
"""Rules about how the kernel divides the machine's resources: NUMA nodes, tuned's profile."""

from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_sysctl, set_unit
from pgflash.advise.doctor.rules import (
    KERNEL_SYSCTL,
    KERNEL_VM,
    MACHINE,
    Rule,
    found,
    good,
    host_of,
    unknown,
)
from pgflash.model.doctor import Diagnosis, DoctorFacts, HostSettings, Node, Outcome
from pgflash.model.words import percent

#: If this part of a node's memory cannot be freed, and so much less of another's, the node drops
#: its page cache or swaps, although there is free memory.
HELD_MAX = 0.8
HELD_APART = 0.4

#: Profiles of tuned that save power, or are for people at a screen.
_SAVING = ("powersave", "balanced", "desktop", "laptop", "spindown-disk", "battery")
_WANTED = ("postgresql", "throughput-performance")


def zone_reclaim(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether a node throws files out of memory while another has room."""
    rule, name = "zone-reclaim", "vm.zone_reclaim_mode"
    value = host_of(facts).sysctls.get(name)
    if value is None:
        yield good(rule, MACHINE, "The kernel knows of one node of memory only.")
    elif value == 0:
        yield good(rule, MACHINE, f"{name} is 0.")
    else:
        yield found(
            rule,
            Outcome.WARNING,
            MACHINE,
            f"{name} is {value}.",
            reason="A node that is full drops its page cache rather than use another's memory: "
            "blocks are read from the disk again that the machine could have kept.",
            source=KERNEL_VM,
            commands=set_sysctl(name, 0),
        )


def numa_balancing(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the kernel moves shared memory between nodes."""
    host, rule, name = host_of(facts), "numa-balancing", "kernel.numa_balancing"
    value = host.sysctls.get(name)
    if len(host.nodes) < 2:
        yield good(rule, MACHINE, "Its memory is of one node.")
    elif value is None:
        yield unknown(rule, MACHINE, f"{name} cannot be read.")
    elif value == 0:
        yield good(rule, MACHINE, f"{name} is 0.")
    else:
        yield found(
            rule,
            Outcome.NOTE,
            MACHINE,
            f"{name} is {value}, and memory is of {len(host.nodes)} nodes.",
            reason="The kernel takes pages away for a moment to see who uses them. All sessions "
            "use shared_buffers, from every node, so there is no better place to find for them.",
            source=KERNEL_SYSCTL,
            commands=set_sysctl(name, 0),
        )


def numa_memory(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether memory that must stay is spread over the nodes."""
    host, rule = host_of(facts), "numa-memory"
    if len(host.nodes) < 2:
        yield good(rule, MACHINE, "Its memory is of one node.")
        return
    held = sorted(host.nodes, key=_held)
    least, most = held[0], held[-1]
    sentence = (
        f"Of {most.name}'s memory {percent(_held(most))} is held by programs and shared memory, of "
        f"{least.name}'s {percent(_held(least))}."
    )
    if _held(most) < HELD_MAX or _held(most) - _held(least) < HELD_APART:
        yield good(rule, MACHINE, sentence)
        return
    yield found(
        rule,
        Outcome.WARNING,
        MACHINE,
        sentence,
        reason="shared_buffers was taken from one node. There the kernel has no room for files "
        "and may swap, while the other's memory is free.",
        source="Linux documentation, admin-guide/mm/numa_memory_policy",
        commands=_spread(host),
    )


def _held(node: Node) -> float:
    return node.held_bytes / node.total_bytes


def _spread(host: HostSettings) -> tuple[str, ...]:
    if host.unit:
        return set_unit(host, "numa", "NUMAPolicy=interleave", "NUMAMask=all")
    return ("# start the server by: numactl --interleave=all pg_ctl start ...",)


def tuned(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check the profile that tuned has set."""
    host, rule = host_of(facts), "tuned"
    profile = host.tuned_profile
    if not profile:
        yield good(rule, MACHINE, "tuned does not run here.")
        return
    if not any(word in profile for word in _SAVING):
        yield good(rule, MACHINE, f"tuned's profile is {profile}.")
        return
    wanted = next((one for one in _WANTED if one in host.tuned_profiles), _WANTED[-1])
    yield found(
        rule,
        Outcome.NOTE,
        MACHINE,
        f"tuned's profile is {profile}.",
        reason="It saves power: processors and drives take a moment to wake, which each read from "
        "flash and each commit waits for; and it sets when dirty pages are written.",
        source="tuned-profiles(7)",
        commands=(f"tuned-adm profile {wanted}",),
    )


KERNEL_RULES: tuple[Rule, ...] = (zone_reclaim, numa_balancing, numa_memory, tuned)
