# SPDX-License-Identifier: PostgreSQL
"""pgflash doctor and pgflash check: what should be different, and what would change it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from pgflash import api
from pgflash.cli.options import dsn_option, examples, form_option, paged_option, probes_option
from pgflash.cli.output import coloured, print_json, print_records, say, say_item, say_text
from pgflash.cli.screen import patiently
from pgflash.model.doctor import Diagnosis, Outcome
from pgflash.model.words import listed

_COLUMNS = ("outcome", "rule", "subject", "sentence", "reason", "source", "commands")
#: Outcomes that can make the command fail, the worst first.
_FAILING = (Outcome.CRITICAL, Outcome.WARNING, Outcome.NOTE)
#: Outcomes that make pgflash check fail.
_WRONG = (Outcome.CRITICAL, Outcome.WARNING)
_COLOURS = {Outcome.CRITICAL: "red", Outcome.WARNING: "yellow", Outcome.NOTE: "cyan"}


@click.command(
    "doctor",
    epilog=examples(
        "pgflash doctor",
        "pgflash doctor --probe flash.json --format json",
        "pgflash doctor --fail-on warning",
        "pgflash doctor --binary /usr/lib/postgresql/18/bin/postgres",
    ),
)
@dsn_option()
@probes_option
@click.option(
    "--fail-on",
    type=click.Choice([str(one) for one in _FAILING]),
    help="Exit with 1 if a finding is at least this severe.",
)
@click.option("--all", "every", is_flag=True, help="Also list the checks that found no problem.")
@click.option(
    "--binary",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check a server's executable instead: can pgflash work with it?",
)
@form_option("Output format; json and csv contain every check.")
@paged_option
def doctor_command(
    *,
    dsn: str | None,
    probes: tuple[Path, ...],
    fail_on: str | None,
    every: bool,
    binary: Path | None,
    form: str,
) -> int:
    """Check the settings of a server and its machine.

    Checks storage, mounts, memory, limits, and the related settings of PostgreSQL.  Each finding
    has its reason, its source, and the commands that would correct it.  Nothing is changed.  On
    another machine than the server's, only the server's settings are checked.

    With --binary, nothing is started and no server is asked.  It lists the functions that would be
    replaced in the import table of the executable, those that are missing, and whether that table
    is sealed.
    """
    if binary is not None:
        found = api.doctor_binary(binary)
    else:
        with patiently("checking the server and its machine"):
            found = api.doctor(dsn=dsn, probes=probes)
    if form == "table":
        _print(found, every=every or binary is not None)
    else:
        _print_records(found, form)
    failing = _FAILING[: _FAILING.index(Outcome(fail_on)) + 1] if fail_on else ()
    return 1 if any(one.outcome in failing for one in found) else 0


@click.command("check", epilog=examples("pgflash check -d app", "pgflash check --format json"))
@dsn_option()
@form_option()
@paged_option
def check_command(*, dsn: str | None, form: str) -> int:
    """Check that pgflash works: its cache, workers and snapshots.

    Exits with 1 if something is wrong, for monitoring. Use pgflash doctor to check the machine and
    the server's other settings.
    """
    found = api.check(dsn=dsn)
    if form == "table":
        for one in found:
            said = f"{one.rule}, {one.subject}: {one.sentence}"
            say_item(f"{one.outcome} ", said, colour=_COLOURS.get(one.outcome, "green"))
    else:
        _print_records(found, form)
    return 1 if any(one.outcome in _WRONG for one in found) else 0


def _print_records(found: Sequence[Diagnosis], form: str) -> None:
    if form == "json":
        print_json([asdict(one) for one in found])
    else:
        print_records(
            _COLUMNS, ({**asdict(one), "commands": "; ".join(one.commands)} for one in found)
        )


def _print(found: Sequence[Diagnosis], *, every: bool) -> None:
    say_item("", _headline(found))
    for one in found:
        if one.outcome in _FAILING:
            _print_finding(one)
    _print_list("Not checked:", [one for one in found if one.outcome is Outcome.UNKNOWN])
    if every:
        _print_list("All well:", [one for one in found if one.outcome is Outcome.GOOD])


def _headline(found: Sequence[Diagnosis]) -> str:
    counts = Counter(one.outcome for one in found)
    words = [
        f"{counts[one]} {one}{'s' if counts[one] != 1 and one is not Outcome.CRITICAL else ''}"
        for one in _FAILING
        if counts[one]
    ]
    unknown = f", {counts[Outcome.UNKNOWN]} could not be made" if counts[Outcome.UNKNOWN] else ""
    said = listed(words) if words else "nothing to change"
    return f"{len(found)} checks: {said}; {counts[Outcome.GOOD]} found no problem{unknown}."


def _print_finding(one: Diagnosis) -> None:
    head = coloured(str(one.outcome), _COLOURS[one.outcome])
    say()
    say(f" {one.rule}, {one.subject}", head=head)
    for text in (one.sentence, one.reason, f"Source: {one.source}."):
        say_text(text, indent="  ")
    for command in one.commands:  # never folded: they are to be copied
        say(f"    {command}")


def _print_list(title: str, found: Sequence[Diagnosis]) -> None:
    if found:
        say("", title)
    for one in found:
        say_text(f"{one.rule}, {one.subject}: {one.sentence}", indent="  ", then="    ")
