# SPDX-License-Identifier: PostgreSQL
"""Rules about what the planner knows of each tablespace's device."""

from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_parameter
from pgflash.advise.doctor.rules import Rule, found, good, is_fast, postgres, unknown
from pgflash.model.device import DeviceFacts
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome, TablespaceSettings

#: The cost of a random page relative to a sequential one, on flash and on a rotating disk.
FLASH_COST = 1.1
FLASH_COST_MAX = 2.0
DISK_COST = 4.0
DISK_COST_MIN = 2.0

#: How many requests at once flash should receive. 18's documentation calls its default high enough
#: for most systems; before 18 the default was 1.
FLASH_CONCURRENCY = 200
FLASH_CONCURRENCY_MIN = 16


def random_page_cost(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the planner can tell flash from disks."""
    rule = "random-page-cost"
    for space, device in _spaces(facts):
        cost, fast = _parameter(facts, space, rule), _fast(device)
        if cost is None or fast is None:
            yield unknown(rule, space.name, _why(space, device))
        elif fast and cost > FLASH_COST_MAX:
            yield found(
                rule,
                Outcome.WARNING if cost >= DISK_COST else Outcome.NOTE,
                space.name,
                f"It is on flash, and the planner takes random_page_cost {cost:g}.",
                reason="That is a disk's. It keeps the planner from indexes where they would be "
                "faster.",
                source=postgres("Query Planning, random_page_cost (1.1 for solid-state drives)"),
                commands=_alter(facts, space, "random_page_cost", FLASH_COST),
            )
        elif not fast and cost < DISK_COST_MIN:
            yield found(
                rule,
                Outcome.NOTE,
                space.name,
                f"It is on disks that turn, and the planner takes random_page_cost {cost:g}.",
                reason="That is flash's. It leads the planner to nested loops that read at random, "
                "which take minutes there. It is right if nearly all is in memory or in the cache.",
                source=postgres("Query Planning, random_page_cost"),
                commands=_alter(facts, space, "random_page_cost", DISK_COST),
            )
        else:
            yield good(rule, space.name, f"random_page_cost {cost:g} fits its device.")


def effective_io_concurrency(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how many requests at once a device receives."""
    rule = "effective-io-concurrency"
    for space, device in _spaces(facts):
        value, fast = _parameter(facts, space, rule), _fast(device)
        disks = len(device.disks) if device is not None else 0
        if value is None or fast is None:
            yield unknown(rule, space.name, _why(space, device))
        elif fast and value < FLASH_CONCURRENCY_MIN:
            yield found(
                rule,
                Outcome.NOTE,
                space.name,
                f"It is on flash, of which {value:g} read at once is asked.",
                reason="Flash serves hundreds at once; a bitmap scan that asks for one waits for "
                "each.",
                source=postgres("Resource Consumption, effective_io_concurrency"),
                commands=_alter(facts, space, "effective_io_concurrency", FLASH_CONCURRENCY),
            )
        elif not fast and value < disks:
            yield found(
                rule,
                Outcome.NOTE,
                space.name,
                f"It is on {disks} disks, of which {value:g} read at once is asked.",
                reason="Then one of them works for a scan, and the others wait.",
                source=postgres("Resource Consumption, effective_io_concurrency"),
                commands=_alter(facts, space, "effective_io_concurrency", disks),
            )
        else:
            yield good(rule, space.name, f"effective_io_concurrency {value:g} fits its device.")


def _spaces(
    facts: DoctorFacts,
) -> Iterator[tuple[TablespaceSettings, DeviceFacts | None]]:
    for space in facts.server.tablespaces:
        yield space, facts.device_of(space.part)


def _fast(device: DeviceFacts | None) -> bool | None:
    return None if device is None else is_fast(device)


def _parameter(facts: DoctorFacts, space: TablespaceSettings, rule: str) -> float | None:
    """Return a tablespace's own value of a parameter, or the server's."""
    name = rule.replace("-", "_")
    try:
        return float(space.options[name])
    except (KeyError, ValueError):
        return facts.server.number(name)


def _why(space: TablespaceSettings, device: DeviceFacts | None) -> str:
    if device is None:
        return f"On which device {space.name} is was not seen."
    why = device.unknown.get("media", "a probe would tell: pgflash devices probe")
    return f"What it is made of is not known: {why}."


def _alter(
    facts: DoctorFacts, space: TablespaceSettings, name: str, value: float
) -> tuple[str, ...]:
    quoted = '"' + space.name.replace('"', '""') + '"'
    command = f"ALTER TABLESPACE {quoted} SET ({name} = {value:g});"
    standbys = facts.server.standbys
    if standbys is None or not standbys.is_standby:
        return (command,)
    # A tablespace has the same parameters on all members; without them the server's count, which
    # is that of the only tablespace without them.
    if [one for one in facts.server.tablespaces if name not in one.options] == [space]:
        return set_parameter(name, f"{value:g}")
    return (f"-- on the primary, for all members: {command}",)


TABLESPACE_RULES: tuple[Rule, ...] = (random_page_cost, effective_io_concurrency)
