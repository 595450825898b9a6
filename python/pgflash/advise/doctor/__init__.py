# SPDX-License-Identifier: PostgreSQL
"""The doctor: settings that vendors of flash recommend, and PostgreSQL's documentation on them.

Rules are pure functions of collected facts.  Each yields a diagnosis for everything that it checks,
even if there is no problem or the facts are unknown, so that the reader knows what was checked.
Each diagnosis names its reason, its source, and the commands that would change what it found.
Nothing is changed here.
"""

from pgflash.advise.doctor.cache import PGFLASH_RULES
from pgflash.advise.doctor.checkpoints import CHECKPOINT_RULES
from pgflash.advise.doctor.drives import DRIVE_RULES
from pgflash.advise.doctor.kernel import KERNEL_RULES
from pgflash.advise.doctor.limits import LIMIT_RULES
from pgflash.advise.doctor.memory import MEMORY_RULES
from pgflash.advise.doctor.mounts import MOUNT_RULES
from pgflash.advise.doctor.network import NETWORK_RULES
from pgflash.advise.doctor.rules import MACHINE, Rule, unknown
from pgflash.advise.doctor.server import SERVER_RULES
from pgflash.advise.doctor.storage import STORAGE_RULES
from pgflash.advise.doctor.tablespaces import TABLESPACE_RULES
from pgflash.advise.doctor.writeback import WRITEBACK_RULES
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome

#: The rules that need the server's machine, and those that do not.
HOST_RULES: tuple[Rule, ...] = (
    *STORAGE_RULES,
    *DRIVE_RULES,
    *MOUNT_RULES,
    *MEMORY_RULES,
    *WRITEBACK_RULES,
    *KERNEL_RULES,
    *LIMIT_RULES,
    *NETWORK_RULES,
)
OWN_RULES: tuple[Rule, ...] = (*TABLESPACE_RULES, *SERVER_RULES, *CHECKPOINT_RULES)

_ORDER = tuple(Outcome)


def diagnose(facts: DoctorFacts) -> tuple[Diagnosis, ...]:
    """Return the diagnoses of all rules, the worst first, and pgflash's own before others."""
    found = [one for rule in PGFLASH_RULES for one in rule(facts)]
    if facts.host is None:
        found.append(
            unknown("machine", MACHINE, f"The machine was not looked at: {facts.why_no_host}.")
        )
    else:
        found.extend(one for rule in HOST_RULES for one in rule(facts))
    found.extend(one for rule in OWN_RULES for one in rule(facts))
    return _sorted(found)


def check(facts: DoctorFacts) -> tuple[Diagnosis, ...]:
    """Return the diagnoses of pgflash itself, the worst first."""
    return _sorted([one for rule in PGFLASH_RULES for one in rule(facts)])


def _sorted(found: list[Diagnosis]) -> tuple[Diagnosis, ...]:
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.outcome)))


__all__ = ["HOST_RULES", "OWN_RULES", "PGFLASH_RULES", "check", "diagnose"]
