# SPDX-License-Identifier: PostgreSQL
"""Rules about memory: shared_buffers, swapping, huge pages, overcommitment.

SanDisk sets swappiness 0.  Since Linux 3.5 this means that the kernel kills a process rather than
swap, so 1 now has the former meaning of 0.
"""

import math
from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_file, set_parameter, set_sysctl
from pgflash.advise.doctor.rules import (
    KERNEL_THP,
    KERNEL_VM,
    MACHINE,
    SANDISK_SYSTEM,
    SERVER,
    Rule,
    found,
    good,
    host_of,
    postgres,
    unknown,
)
from pgflash.model.doctor import Diagnosis, DoctorFacts, HostSettings, Outcome
from pgflash.model.words import percent, size

SWAPPINESS_MAX = 10

#: The percentage of memory that may be promised, besides swap: the least that we advise, and the
#: most, which leaves room for the kernel.
OVERCOMMIT_RATIO = 80
OVERCOMMIT_RATIO_MAX = 95
#: The limit must exceed the memory that is promised now by this factor; that of a kernel that does
#: not overcommit already, by the other.
COMMIT_ROOM = 1.5
COMMIT_SPARE = 1.1

#: Below this, huge pages bring little.
HUGE_PAGES_FROM_BYTES = 2**30

#: By how much shared memory grows with shared_buffers at most, for descriptors, locks and look-up
#: tables, and for what the server sizes by them: by postgres -C shared_memory_size, on 15 and 18.
BUFFER_SHARE = 1.025
BUFFERS_SPARE_BYTES = 64 * 2**20
#: The share of the available memory that huge pages may take while the server still runs.
AVAILABLE_SHARE = 0.9

#: From a cache of this size on, huge pages make look-ups measurably faster (bench/README.md).
CACHE_FROM_BYTES = 8 * 2**30

#: Where PostgreSQL's documentation begins, and from where on more is unlikely to help.
BUFFERS_SHARE = 0.25
BUFFERS_SHARE_MAX = 0.4
#: Below this share of memory it is worth a note; with less memory the default may suffice.
BUFFERS_SHARE_MIN = 0.1
BUFFERS_FROM_MEMORY_BYTES = 2 * 2**30


def swappiness(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how willingly the kernel swaps."""
    host = host_of(facts)
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


def shared_buffers(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check which part of memory is the server's own cache."""
    host, rule = host_of(facts), "shared-buffers"
    now, memory = facts.server.size_bytes("shared_buffers"), _memory_bytes(host)
    if now is None or memory is None:
        yield unknown(rule, SERVER, "shared_buffers or the machine's memory may not be seen.")
        return
    whose = "the machine's" if memory == host.memory_bytes else "its control group's"
    sentence = f"shared_buffers is {size(now)}, {percent(now / memory)} of {whose} memory."
    if not _is_small(now, memory) and not _is_large(now, memory):
        yield good(rule, SERVER, sentence)
        return
    yield found(
        rule,
        Outcome.NOTE,
        SERVER,
        sentence,
        reason="If the machine has no other duties, a quarter is where to begin: a block found "
        "here is asked of neither the kernel nor flash. Measure before and after: pgflash compare."
        if _is_small(now, memory)
        else "More than 40 % is seldom better: what it holds is often in the kernel's page cache, "
        "too, and sessions, sorts and that cache need memory as well. Measure before and after: "
        "pgflash compare.",
        source=postgres("Resource Consumption, shared_buffers"),
        commands=_set_buffers(facts),
    )


def _memory_bytes(host: HostSettings) -> int | None:
    """Return the memory that the server may use."""
    return min(filter(None, (host.memory_bytes, host.memory_limit_bytes)), default=None)


def _is_small(now: int, memory: int) -> bool:
    return memory >= BUFFERS_FROM_MEMORY_BYTES and now < BUFFERS_SHARE_MIN * memory


def _is_large(now: int, memory: int) -> bool:
    return now > BUFFERS_SHARE_MAX * memory


def _more_buffers(facts: DoctorFacts) -> int:
    """Return by how many bytes shared_buffers should grow, or shrink; 0 if it may stay.

    With more of it the server does not start if huge pages are required, the kernel does not
    overcommit, or System V memory is limited, unless those are changed first.
    """
    host, server = host_of(facts), facts.server
    now, memory = server.size_bytes("shared_buffers"), _memory_bytes(host)
    if now is None or memory is None or not (_is_small(now, memory) or _is_large(now, memory)):
        return 0
    demanding = (
        server.settings.get("huge_pages") == "on"
        or host.sysctls.get("vm.overcommit_memory") == 2
        or server.settings.get("shared_memory_type") == "sysv"
    )
    more = int(BUFFERS_SHARE * memory) - now
    return 0 if more > 0 and (demanding or more > (host.available_bytes or 0)) else more


def _set_buffers(facts: DoctorFacts) -> tuple[str, ...]:
    """Return commands if the server can be started after them, in huge pages as before."""
    more = _more_buffers(facts)
    if more == 0:
        return ()
    now = facts.server.size_bytes("shared_buffers") or 0
    pages: tuple[str, ...] | None = ()
    if more > 0 and _uses_huge_pages(facts) is not False:
        pages = _more_huge_pages(facts, _shared_bytes(more))
    if pages is None:
        return ()
    megabytes = (now + more) // 2**20
    return (*pages, *set_parameter("shared_buffers", f"'{megabytes}MB'", restart=True))


def _shared_bytes(more: int) -> int:
    """Return by how much shared memory grows with shared_buffers."""
    return int(BUFFER_SHARE * more) + BUFFERS_SPARE_BYTES if more > 0 else more


def _more_huge_pages(facts: DoctorFacts, wanted_bytes: int) -> tuple[str, ...] | None:
    """Return commands after which so much is free in huge pages; None if none would do that now.

    Where the kernel finds too little it makes fewer pages, which nobody can use then: shared memory
    is in huge pages as a whole, or not at all.
    """
    host = host_of(facts)
    page = _huge_page_bytes(host)
    if facts.server.size_bytes("huge_page_size") not in (None, 0, page):
        return None  # the setting of the kernel is about the pages of its own size
    missing = max(-(-wanted_bytes // page) - (host.huge_pages_free or 0), 0)
    room = AVAILABLE_SHARE * (host.available_bytes or 0)
    if missing * page > room or not _may_promise(host, missing * page):
        return None
    now = host.sysctls.get("vm.nr_hugepages") or 0
    return set_sysctl("vm.nr_hugepages", now + missing) if missing else ()


def _may_promise(host: HostSettings, reserved_bytes: int) -> bool:
    """Tell whether the kernel may go on promising memory beside more huge pages.

    One that does not overcommit promises a share of the rest; below what it has promised, no
    process can be started (Linux documentation, filesystems/proc, CommitLimit).
    """
    if host.sysctls.get("vm.overcommit_memory") != 2 or host.sysctls.get("vm.overcommit_kbytes"):
        return True
    if host.memory_bytes is None or host.committed_bytes is None:
        return False
    in_huge_pages = (host.huge_pages or 0) * _huge_page_bytes(host) + reserved_bytes
    ratio = (host.sysctls.get("vm.overcommit_ratio") or 0) / 100
    limit = ratio * (host.memory_bytes - in_huge_pages) + (host.swap_bytes or 0)
    return limit >= COMMIT_SPARE * host.committed_bytes


def _huge_page_bytes(host: HostSettings) -> int:
    return host.huge_page_bytes or 2 * 2**20


def huge_pages(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether shared memory is in huge pages."""
    server, host = facts.server, host_of(facts)
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
    # The server knows the number exactly, but for the shared_buffers that it has now.
    needed = int(server.number("shared_memory_size_in_huge_pages") or 0) * _huge_page_bytes(host)
    needed = (needed if needed > 0 else shared) + _shared_bytes(_more_buffers(facts))
    pages = _more_huge_pages(facts, needed)
    yield found(
        rule,
        Outcome.WARNING if shared >= 8 * HUGE_PAGES_FROM_BYTES else Outcome.NOTE,
        SERVER,
        f"{size(shared)} of shared memory are in pages of 4 kB.",
        reason="Every session has tables of its own for those pages, 8 bytes for each page it has "
        "touched, and the processor looks them up more often."
        + (
            " Memory has no room for huge pages now, or those of huge_page_size have a setting of "
            "their own: they are best reserved when the machine starts."
            if pages is None
            else ""
        ),
        source=postgres("Managing Kernel Resources, Linux Huge Pages"),
        commands=()
        if pages is None
        else (*pages, *set_parameter("huge_pages", "try", restart=True)),
    )


def _uses_huge_pages(facts: DoctorFacts) -> bool | None:
    """Tell whether the server uses huge pages: 17 reports it; otherwise the counts show it."""
    status = facts.server.settings.get("huge_pages_status")
    if status in ("on", "off"):
        return status == "on"
    if facts.server.settings.get("huge_pages") == "off":
        return False
    host = host_of(facts)
    if host.huge_pages == 0 and not host.sysctls.get("vm.nr_overcommit_hugepages"):
        return False
    return True if facts.server.settings.get("huge_pages") == "on" else None


def transparent_huge_pages(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check that the kernel makes huge pages where it is asked to, and only there."""
    word = host_of(facts).transparent_huge_pages
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
            commands=set_file("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        )
    elif word == "never" and _cache_bytes(facts) >= CACHE_FROM_BYTES:
        yield found(
            rule,
            Outcome.NOTE,
            MACHINE,
            "The kernel makes no huge pages, not even for the cache's own memory.",
            reason="In a cache of 8 to 80 GB a look-up took 1.3 to 1.5 times as long with pages of "
            "4 kB, and every session has tables of its own for them.",
            source=KERNEL_THP,
            commands=set_file("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        )
    else:
        yield good(rule, MACHINE, f"Transparent huge pages: {word}.")


def _cache_bytes(facts: DoctorFacts) -> int:
    """Return the size of the cache; 0 if there is none, or if its memory is the server's."""
    settings = facts.server.settings
    if not settings.get("pgflash.cache_file") or settings.get("pgflash.warm_restart") == "off":
        return 0
    return facts.server.size_bytes("pgflash.cache_size") or 0


def overcommit(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the kernel may promise more memory than there is."""
    host = host_of(facts)
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
    in_huge_pages = (host.huge_pages or 0) * _huge_page_bytes(host)
    wanted = COMMIT_ROOM * host.committed_bytes - (host.swap_bytes or 0)
    ratio = math.ceil(100 * wanted / max(host.memory_bytes - in_huge_pages, 1))
    if ratio > OVERCOMMIT_RATIO_MAX:
        return ()
    return (
        *set_sysctl("vm.overcommit_ratio", max(ratio, OVERCOMMIT_RATIO)),
        *set_sysctl("vm.overcommit_memory", 2),
    )


MEMORY_RULES: tuple[Rule, ...] = (
    shared_buffers,
    swappiness,
    huge_pages,
    transparent_huge_pages,
    overcommit,
)
