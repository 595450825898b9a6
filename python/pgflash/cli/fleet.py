# SPDX-License-Identifier: PostgreSQL
"""pgflash fleet: the servers of a cluster side by side, and a switchover to a warm one."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import click

from pgflash import api
from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import (
    dsn_option,
    duration_of,
    examples,
    form_option,
    members_option,
    paged_option,
    share_of,
)
from pgflash.cli.output import (
    complain,
    confirm,
    print_json,
    print_records,
    say,
    say_item,
    say_table,
)
from pgflash.cli.patroni import patroni_access_options, patroni_option
from pgflash.cli.screen import Screen, patiently
from pgflash.errors import PgflashError, UsageError
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.fleet import Fleet, FleetMember
from pgflash.model.words import NOTHING, percent

_COLUMNS = (
    "name",
    "address",
    "role",
    "state",
    "timeline",
    "lag_bytes",
    "version",
    "mode",
    "mode_reason",
    "size_bytes",
    "used_bytes",
    "hit_ratio",
    "warmth",
    "to_go_s",
    "list_age_s",
    "differs",
    "problem",
)
_FILE = click.Path(path_type=Path, dir_okay=False)
_WARM = click.option(
    "--when-warm",
    metavar="SHARE",
    default="90%",
    show_default=True,
    callback=share_of,
    help="How much of the primary's list must be cached.",
)


@click.group(
    "fleet",
    epilog=examples(
        "pgflash fleet status --patroni http://db1:8008 -d app",
        "pgflash fleet switchover --patroni http://db1:8008 -d app --when-warm 90%",
    ),
)
def fleet_command() -> None:
    """See a cluster's servers, and switch over to a warm one.

    Nothing here delays or prevents a failover.
    """


@fleet_command.command(
    "status",
    epilog=examples(
        "pgflash fleet status --patroni http://db1:8008 --patroni http://db2:8008 -d app",
        "pgflash fleet status --dsn 'host=db1 dbname=app' --dsn 'host=db2 dbname=app'",
    ),
)
@patroni_option(required=False)
@members_option(
    "With --patroni: database and role of its members. Without: a server, to be given for each.",
    multiple=True,
)
@patroni_access_options
@form_option()
@paged_option
def status_command(
    *,
    urls: tuple[str, ...],
    dsns: tuple[str, ...],
    access: api.PatroniAccess,
    form: str,
) -> None:
    """Show the members of a cluster side by side.

    Shows role, lag, cache, warmth, and settings that differ.

    With --patroni, the members are those that Patroni lists, and their servers are connected to at
    the addresses that it has for them, which are shown.  The only passwords that are sent there are
    those of ~/.pgpass.  A member that does not answer is shown with the reason.
    """
    if urls and len(dsns) > 1:
        raise UsageError("with --patroni, --dsn is given once: database and role of its members")
    with patiently("asking the members"):
        found = (
            api.fleet_status(patroni=urls, dsn=dsns[0] if dsns else None, access=access)
            if urls
            else api.fleet_status(dsns=dsns)
        )
    if form == "json":
        print_json(asdict(found))
    elif form == "csv":
        print_records(_COLUMNS, map(_record, found.members))
    else:
        _print(found)


@fleet_command.command(
    "switchover",
    epilog=examples(
        "pgflash fleet switchover --patroni http://db1:8008 -d app --when-warm 90%",
        "pgflash fleet switchover --patroni https://db1:8008 --patroni-ca ca.pem "
        "--patroni-auth api.txt --candidate db2 --yes",
    ),
)
@patroni_option(required=True)
@members_option("Database and role of the members.")
@_WARM
@click.option(
    "--candidate",
    metavar="NAME",
    default="",
    help="Member that takes over (default: any warm one).",
)
@click.option(
    "--timeout",
    metavar="TIME",
    default="1h",
    show_default=True,
    callback=duration_of,
    help="Give up after this time.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@patroni_access_options
def switchover_command(
    *,
    urls: tuple[str, ...],
    dsns: tuple[str, ...],
    when_warm: float,
    candidate: str,
    timeout: timedelta,
    yes: bool,
    access: api.PatroniAccess,
) -> None:
    """Wait until a standby is warm, then switch over to it.

    Patroni makes the switchover. Until then nothing is changed: Ctrl-C ends the wait and leaves
    nothing behind, and so does a failover in the meantime. Once Patroni has been asked, it
    completes the switchover.
    """
    whom = f'"{candidate}"' if candidate else "the first standby that is"
    if not yes and not confirm(f"Switch over to {whom} {percent(when_warm)} warm?"):
        return
    with Screen() as screen:
        done = api.fleet_switchover(
            patroni=urls,
            when_warm=when_warm,
            candidate=candidate,
            timeout_s=timeout.total_seconds(),
            dsn=dsns[0] if dsns else None,
            access=access,
            listener=screen,
        )
    say(f"{done.to_member} leads, after {done.from_member}; it was {percent(done.warmth)} warm.")


@fleet_command.command(
    "tag",
    epilog=examples(
        "pgflash fleet tag --file /etc/patroni/conf.d/90-pgflash.yml --patroni "
        "http://127.0.0.1:8008 -d app --every 10s",
    ),
)
@click.option(
    "--file",
    "path",
    metavar="FILE",
    required=True,
    type=_FILE,
    help="File for the tag, in the folder of this member's Patroni.",
)
@click.option(
    "--patroni", "url", metavar="URL", required=True, help="REST API of this member's Patroni."
)
@dsn_option("This member's server")
@_WARM
@click.option(
    "--every",
    metavar="TIME",
    callback=duration_of,
    help="Repeat, for example every 10s, until Ctrl-C.",
)
@patroni_access_options
def tag_command(
    *,
    path: Path,
    url: str,
    dsn: str | None,
    when_warm: float,
    every: timedelta | None,
    access: api.PatroniAccess,
) -> None:
    """Tag a member with whether its cache is warm (pgflash_warm).

    Load balancers ask Patroni for it: GET /replica?tag_pgflash_warm=true answers 200 while the
    replica is warm.  Run it beside Patroni, as its user; Patroni must have been started with a
    folder of configuration files.  A primary is warm.
    """
    while True:
        begin = time.monotonic()
        try:
            tag = api.fleet_tag(path, patroni=url, when_warm=when_warm, dsn=dsn, access=access)
            if tag.changed or every is None:
                say(f"pgflash_warm is {str(tag.is_warm).lower()}: {tag.reason}")
        except UsageError:
            raise
        except PgflashError as error:  # it may be better next time
            if every is None:
                raise
            complain(error.message, error.hint)
        if every is None:
            return
        time.sleep(max(every.total_seconds() - (time.monotonic() - begin), 0))


def _record(one: FleetMember) -> dict[str, object]:
    return {**asdict(one), "differs": " ".join(one.differs)}


def _print(found: Fleet) -> None:
    if found.url:
        say_item("", f"{found.name}, as Patroni at {found.url} sees it")
    say_table(_members(found.members))
    for one in found.members:
        if one.problem:
            say_item(f"{one.name}: ", one.problem, colour="yellow")
    if found.differences:
        say("")
        say_table(_differences(found))


def _members(members: Sequence[FleetMember]) -> ReportTable:
    return ReportTable(
        id="fleet",
        title="Members",
        columns=(
            text("name", "member"),
            text("address", "address"),
            text("role", "role"),
            text("state", "state"),
            figure("timeline", "timeline", Unit.COUNT),
            figure("lag", "lag", Unit.BYTES),
            text("mode", "mode"),
            figure("size", "cache", Unit.BYTES),
            figure("used", "used", Unit.BYTES),
            figure("hit_ratio", "hits", Unit.SHARE),
            figure("warmth", "warm", Unit.SHARE),
            text("version", "pgflash"),
        ),
        rows=tuple(
            row(
                one.name,
                one.address,
                one.role,
                one.state,
                one.timeline,
                one.lag_bytes,
                one.mode or NOTHING,
                one.size_bytes,
                one.used_bytes,
                one.hit_ratio,
                one.warmth,
                one.version or NOTHING,
            )
            for one in members
        ),
        key=("name",),
    )


def _differences(found: Fleet) -> ReportTable:
    names = list(found.differences[0].values)
    return ReportTable(
        id="differences",
        title="Settings that differ",
        columns=(
            text("setting", "differs"),
            *(text(f"member_{number}", name) for number, name in enumerate(names)),
        ),
        rows=tuple(
            row(one.name, *(one.values[name] or NOTHING for name in names))
            for one in found.differences
        ),
        key=("setting",),
    )
