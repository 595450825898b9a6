# SPDX-License-Identifier: PostgreSQL
"""Rules about a server's executable, which need no server: whether pgflash can work with it.

They report what the library will report when it is loaded (extension/src/hooks/imports.c).
"""

from collections.abc import Iterator, Sequence

from pgflash.advise.doctor.rules import found, good, unknown
from pgflash.machine.programs import Program
from pgflash.model.doctor import Diagnosis, Outcome
from pgflash.model.server_imports import (
    FOREIGN,
    REPLACED,
    REQUIRED,
    URING_REPLACED,
    URING_REQUIRED,
)
from pgflash.model.words import listed, things

#: The versions of PostgreSQL that the library can be built for.
MAJORS = range(15, 20)

EXECUTABLE = "executable"

_SOURCE = "docs/guide/doctor.md, Before it is installed"
_STAYS_OFF = "The library would say so when it is loaded, and stay off: the server runs without it."


def judge(program: Program) -> tuple[Diagnosis, ...]:
    """Return the diagnoses of an executable, the worst first."""
    found_so = [*_server(program), *_kind(program)]
    if program.is_known and program.is_dynamic:
        found_so += [*_imports(program), *_uring(program), *_protection(program)]
    order = tuple(Outcome)
    return tuple(sorted(found_so, key=lambda one: order.index(one.outcome)))


def _refused(rule: str, sentence: str, reason: str = _STAYS_OFF) -> Diagnosis:
    return found(rule, Outcome.WARNING, EXECUTABLE, sentence, reason=reason, source=_SOURCE)


def _server(program: Program) -> Iterator[Diagnosis]:
    """Check that it is a server of a version that the library can be built for."""
    if program.major is None:
        yield _refused(
            "binary-version",
            "It does not look like PostgreSQL's server.",
            "Name the executable, not a script: pg_config --bindir shows its folder.",
        )
    elif program.major in MAJORS:
        yield good("binary-version", EXECUTABLE, f"It is PostgreSQL {program.major}.")
    else:
        yield _refused(
            "binary-version",
            f"It is PostgreSQL {program.major}; pgflash is for {MAJORS[0]} to {MAJORS[-1]}.",
            "The library cannot be built for it.",
        )


def _kind(program: Program) -> Iterator[Diagnosis]:
    """Check that there is an import table, of a processor that the library knows."""
    rule = "binary-kind"
    if not program.is_known:
        yield _refused(
            rule,
            f"It is for another processor ({program.processor}).",
            "pgflash knows the import tables of x86-64 and aarch64 only.",
        )
    elif not program.is_dynamic:
        yield _refused(rule, "It is linked statically: it has no import table.")
    else:
        yield good(rule, EXECUTABLE, f"It is for {program.processor}, and linked dynamically.")


def _imports(program: Program) -> Iterator[Diagnosis]:
    """Check the functions that the library replaces, and those that it cannot."""
    foreign = [name for name in FOREIGN if name in program.slots]
    if foreign:
        yield _refused(
            "binary-foreign",
            f"It imports {listed(foreign)}, which pgflash does not watch.",
            f"It may change files unseen. {_STAYS_OFF}",
        )
    missing = _missing(program, REQUIRED)
    if missing:
        yield _refused("binary-imports", f"It imports none of: {'; '.join(missing)}.")
        return
    yield good("binary-imports", EXECUTABLE, _replaced(program, REPLACED))


def _uring(program: Program) -> Iterator[Diagnosis]:
    """Check what reading by io_uring needs; without liburing it cannot read so."""
    rule = "binary-io-uring"
    if not any(name.startswith("io_uring_") for name in program.slots):
        return
    missing = _missing(program, URING_REQUIRED)
    if missing:
        yield _refused(
            rule,
            f"It imports none of: {'; '.join(missing)}.",
            "With io_method = io_uring the cache and the accounting would be off.",
        )
    else:
        also = _replaced(program, URING_REPLACED)
        yield good(rule, EXECUTABLE, f"With io_method = io_uring: {also[0].lower()}{also[1:]}")


def _protection(program: Program) -> Iterator[Diagnosis]:
    """Check whether the table can be written: read-only is undone, a seal is not."""
    rule = "binary-sealed"
    if program.is_sealed:
        yield unknown(
            rule,
            EXECUTABLE,
            "It asks for its memory to be sealed. Where kernel (Linux 6.10 and later) and C "
            "library do so, its import table cannot be replaced, and pgflash stays off.",
        )
    elif program.read_only & {*REPLACED}:
        yield good(
            rule,
            EXECUTABLE,
            "Its import table is read-only (RELRO), which the library undoes for a moment; it is "
            "not sealed.",
        )
    else:
        yield good(rule, EXECUTABLE, "Its import table is neither read-only nor sealed.")


def _missing(program: Program, groups: Sequence[Sequence[str]]) -> list[str]:
    return [
        " or ".join(names) for names in groups if not any(one in program.slots for one in names)
    ]


def _replaced(program: Program, names: Sequence[str]) -> str:
    has = [name for name in names if name in program.slots]
    slots = sum(program.slots[name] for name in has)
    return f"{things(slots, 'slot')} of its import table would be replaced: {listed(has)}."
