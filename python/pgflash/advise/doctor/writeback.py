# SPDX-License-Identifier: PostgreSQL
"""Rules about dirty pages: when the kernel writes what PostgreSQL has left in its page cache.

SanDisk sets dirty_background_ratio 3, dirty_ratio 80, dirty_expire_centisecs 500 and
dirty_writeback_centisecs 100 for a database that did its own I/O.  PostgreSQL writes through the
page cache, so it matters more when the kernel writes.
"""

from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_sysctl
from pgflash.advise.doctor.rules import (
    KERNEL_VM,
    MACHINE,
    SANDISK_SYSTEM,
    Rule,
    found,
    good,
    host_of,
    postgres,
    unknown,
)
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome
from pgflash.model.words import duration, size

#: How much may be dirty in memory before the kernel begins to write.
BACKGROUND_MAX_BYTES = 2**30
BACKGROUND_BYTES = 256 * 2**20
#: From here on, a process that writes must also write the pages of others.
DIRTY_RATIO_MIN = 10

#: The kernel's defaults: the age at which a page is written, and how often it looks for such pages.
EXPIRE_CENTISECS = 3000
WRITEBACK_CENTISECS = 500
#: Programs that save a notebook's battery set 1500 and more.
WRITEBACK_MAX_CENTISECS = 1000


def dirty_background(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how much may be dirty before the kernel begins to write."""
    host = host_of(facts)
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
    host = host_of(facts)
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


def dirty_expire(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how old a dirty page becomes."""
    rule, name = "dirty-expire", "vm.dirty_expire_centisecs"
    value = host_of(facts).sysctls.get(name)
    if value is None:
        yield unknown(rule, MACHINE, f"{name} cannot be read.")
        return
    sentence = f"The kernel writes a page when it has been dirty for {duration(value / 100)}."
    if value <= EXPIRE_CENTISECS:
        yield good(rule, MACHINE, sentence)
        return
    yield found(
        rule,
        Outcome.NOTE,
        MACHINE,
        sentence,
        reason="A checkpoint that is spread over minutes counts on the kernel to write meanwhile; "
        "what is left is written by its syncs at the end, all at once.",
        source=f"{SANDISK_SYSTEM} (500); {postgres('WAL Configuration')}; {KERNEL_VM}",
        commands=set_sysctl(name, EXPIRE_CENTISECS),
    )


def dirty_writeback(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how often the kernel looks for pages that are old enough."""
    rule, name = "dirty-writeback", "vm.dirty_writeback_centisecs"
    value = host_of(facts).sysctls.get(name)
    if value is None:
        yield unknown(rule, MACHINE, f"{name} cannot be read.")
        return
    sentence = f"The kernel looks every {duration(value / 100)} for pages to write."
    if 0 < value <= WRITEBACK_MAX_CENTISECS:
        yield good(rule, MACHINE, sentence)
        return
    yield found(
        rule,
        Outcome.NOTE if value else Outcome.WARNING,
        MACHINE,
        sentence if value else "The kernel never writes a page because of its age.",
        reason="Dirty pages pile up until a checkpoint's syncs write them all at once, and "
        "commits wait behind them.",
        source=f"{SANDISK_SYSTEM} (100); {KERNEL_VM}",
        commands=set_sysctl(name, WRITEBACK_CENTISECS),
    )


WRITEBACK_RULES: tuple[Rule, ...] = (dirty_background, dirty_ratio, dirty_expire, dirty_writeback)
