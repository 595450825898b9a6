# SPDX-License-Identifier: PostgreSQL
"""Rules about memory: swapping, dirty pages, huge pages, overcommitment.

SanDisk sets swappiness 0, dirty_background_ratio 3, dirty_ratio 80 for a database that did its
own I/O. PostgreSQL writes through the page cache, so it matters more when the kernel writes.  Since
Linux 3.5, swappiness 0 means that the kernel kills a process rather than swap, so 1 now has the
former meaning of 0.
"""

import math
from collections.abc import Iterator

from pgflash.advise.doctor.rules import (
    KERNEL_VM,
    MACHINE,
    SANDISK_SYSTEM,
    SERVER,
    Rule,
    found,
    good,
    postgres,
    set_parameter,
    set_sysctl,
    unknown,
)
from pgflash.model.doctor import Diagnosis, DoctorFacts, HostSettings, Outcome
from pgflash.model.words import size

SWAPPINESS_MAX = 10

#: How much may be dirty in memory before the kernel begins to write.
BACKGROUND_MAX_BYTES = 2**30
BACKGROUND_BYTES = 256 * 2**20
#: From here on, a process that writes has to write others' pages, too.
DIRTY_RATIO_MIN = 10

#: The percentage of memory that may be promised, besides swap: the least that we advise, and the
#: most, which leaves room for the kernel.
OVERCOMMIT_RATIO = 80
OVERCOMMIT_RATIO_MAX = 95
#: How much more than what is promised now is to be possible.
COMMIT_ROOM = 1.5

#: Below this, huge pages bring little.
HUGE_PAGES_FROM_BYTES = 2**30


def _host(facts: DoctorFacts) -> HostSettings:
    assert facts.host is not None
    return facts.host


def swappiness(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how willingly the kernel swaps."""
    host = _host(facts)
    value = host.sysctls.get("vm.swappiness")
    if value is None:
        yield unknown("swappiness", MACHINE, "vm.swappiness cannot be read.")
    elif host.swap_bytes == 0:
        yield good("swappiness", MACHINE, "The machine has no swap.")
    elif 0 < value <= SWAPPINESS_MAX:
        yield good("swappiness", MACHINE, f"vm.swappiness is {value}.")
    else:
        yield found(
            "swappiness",
            Outcome.NOTE,
            MACHINE,
            f"vm.swappiness is {value}.",
            reason="With 0 the kernel rather kills a process than swap one that idles."
            if value == 0
            else "The kernel may swap parts of shared_buffers out to keep files in its cache.",
            source=f"{SANDISK_SYSTEM} (0); {KERNEL_VM}",
            commands=set_sysctl("vm.swappiness", 1),
        )


def dirty_background(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how much may be dirty before the kernel begins to write."""
    host = _host(facts)
    rule = "dirty-background"
    absolute = host.sysctls.get("vm.dirty_background_bytes") or 0
    ratio = host.sysctls.get("vm.dirty_background_ratio")
    if not absolute and (ratio is None or host.memory_bytes is None):
        yield unknown(rule, MACHINE, "When the kernel begins to write cannot be read.")
        return
    allowed = absolute or (ratio or 0) * (host.memory_bytes or 0) // 100
    set_by = "vm.dirty_background_bytes" if absolute else f"vm.dirty_background_ratio {ratio}"
    sentence = f"The kernel begins to write when {size(allowed)} lie dirty ({set_by})."
    if allowed <= BACKGROUND_MAX_BYTES:
        yield good(rule, MACHINE, sentence)
        return
    yield found(
        rule,
        Outcome.WARNING if allowed > 8 * BACKGROUND_MAX_BYTES else Outcome.NOTE,
        MACHINE,
        sentence,
        reason="What piles up is written at once when a checkpoint syncs, and commits wait behind "
        "it.",
        source=f"{SANDISK_SYSTEM} (3 %); {KERNEL_VM}",
        commands=set_sysctl("vm.dirty_background_bytes", BACKGROUND_BYTES),
    )


def dirty_ratio(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check from which point on writers are held up."""
    host = _host(facts)
    absolute = host.sysctls.get("vm.dirty_bytes") or 0
    ratio = host.sysctls.get("vm.dirty_ratio")
    if absolute:
        yield good("dirty-ratio", MACHINE, f"Writers are held up at {size(absolute)} dirty bytes.")
    elif ratio is None:
        yield unknown("dirty-ratio", MACHINE, "vm.dirty_ratio cannot be read.")
    elif ratio >= DIRTY_RATIO_MIN:
        yield good("dirty-ratio", MACHINE, f"vm.dirty_ratio is {ratio}.")
    else:
        yield found(
            "dirty-ratio",
            Outcome.NOTE,
            MACHINE,
            f"vm.dirty_ratio is {ratio}.",
            reason="A session that writes is soon made to write the pages of others.",
            source=f"{SANDISK_SYSTEM} (80); {KERNEL_VM}",
            commands=set_sysctl("vm.dirty_ratio", 40),
        )


def huge_pages(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether shared memory is in huge pages."""
    server, host = facts.server, _host(facts)
    rule = "huge-pages"
    shared = server.size_bytes("shared_memory_size") or server.size_bytes("shared_buffers")
    asked = server.settings.get("huge_pages")
    if shared is None or asked is None:
        yield unknown(rule, SERVER, "The size of shared memory may not be seen.")
        return
    if shared < HUGE_PAGES_FROM_BYTES:
        yield good(rule, SERVER, f"Shared memory is {size(shared)}: huge pages would bring little.")
        return
    used = _uses_huge_pages(facts)
    if used:
        yield good(rule, SERVER, f"{size(shared)} of shared memory are in huge pages.")
        return
    if used is None:
        yield unknown(rule, SERVER, "Whether shared memory is in huge pages is not known.")
        return
    needed = int(server.number("shared_memory_size_in_huge_pages") or 0)
    page = host.huge_page_bytes or 2 * 2**20
    needed = needed if needed > 0 else -(-shared // page)
    yield found(
        rule,
        Outcome.WARNING if shared >= 8 * HUGE_PAGES_FROM_BYTES else Outcome.NOTE,
        SERVER,
        f"{size(shared)} of shared memory are in pages of 4 kB.",
        reason="Every session has tables of its own for those pages, 8 bytes for each page it has "
        "touched, and the processor looks them up more often.",
        source=postgres("Managing Kernel Resources, Linux Huge Pages"),
        commands=(
            *set_sysctl("vm.nr_hugepages", needed + (host.sysctls.get("vm.nr_hugepages") or 0)),
            *set_parameter("huge_pages", "try", restart=True),
        ),
    )


def _uses_huge_pages(facts: DoctorFacts) -> bool | None:
    """Tell whether the server uses huge pages: 17 reports it; otherwise the counts show it."""
    status = facts.server.settings.get("huge_pages_status")
    if status in ("on", "off"):
        return status == "on"
    if facts.server.settings.get("huge_pages") == "off":
        return False
    host = _host(facts)
    if host.huge_pages == 0 and not host.sysctls.get("vm.nr_overcommit_hugepages"):
        return False
    return True if facts.server.settings.get("huge_pages") == "on" else None


def transparent_huge_pages(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the kernel makes huge pages without being asked."""
    word = _host(facts).transparent_huge_pages
    rule = "transparent-huge-pages"
    if not word:
        yield unknown(rule, MACHINE, "The kernel does not tell about transparent huge pages.")
    elif word == "always":
        yield found(
            rule,
            Outcome.NOTE,
            MACHINE,
            "The kernel makes huge pages wherever it can.",
            reason="Looking for them can hold sessions up, and memory that sessions give back "
            "stays theirs.",
            source=postgres("Managing Kernel Resources, Linux Huge Pages"),
            commands=(
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
                "# and transparent_hugepage=madvise on the kernel's command line",
            ),
        )
    else:
        yield good(rule, MACHINE, f"Transparent huge pages: {word}.")


def overcommit(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the kernel may promise more memory than there is."""
    host = _host(facts)
    value = host.sysctls.get("vm.overcommit_memory")
    if value is None:
        yield unknown("overcommit", MACHINE, "vm.overcommit_memory cannot be read.")
    elif value == 2:
        yield good("overcommit", MACHINE, "The kernel does not promise more memory than there is.")
    else:
        yield found(
            "overcommit",
            Outcome.NOTE,
            MACHINE,
            f"vm.overcommit_memory is {value}: memory is promised that may not be there.",
            reason="When it runs out the kernel kills a process; if that is one of the server's, "
            "all sessions end and it recovers. With 2 a statement fails instead; it takes care "
            "where other programs run.",
            source=postgres("Managing Kernel Resources, Linux Memory Overcommit"),
            commands=_no_overcommit(host),
        )


def _no_overcommit(host: HostSettings) -> tuple[str, ...]:
    """Return commands that leave room for what is promised already, or none.

    With 2 the kernel promises at most swap and overcommit_ratio percent of the memory that is not
    in huge pages; where that is less than it has promised, no process can be started.
    """
    if host.memory_bytes is None or host.committed_bytes is None:
        return ()
    in_huge_pages = (host.huge_pages or 0) * (host.huge_page_bytes or 0)
    wanted = COMMIT_ROOM * host.committed_bytes - (host.swap_bytes or 0)
    ratio = math.ceil(100 * wanted / max(host.memory_bytes - in_huge_pages, 1))
    if ratio > OVERCOMMIT_RATIO_MAX:
        return ()
    return (
        *set_sysctl("vm.overcommit_ratio", max(ratio, OVERCOMMIT_RATIO)),
        *set_sysctl("vm.overcommit_memory", 2),
    )


MEMORY_RULES: tuple[Rule, ...] = (
    swappiness,
    dirty_background,
    dirty_ratio,
    huge_pages,
    transparent_huge_pages,
    overcommit,
)
