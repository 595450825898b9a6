# SPDX-License-Identifier: PostgreSQL
"""pgflash memory, pgflash memory remove: what the caches of killed servers have left in memory."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from pgflash import api
from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import examples, form_option
from pgflash.cli.output import confirm, print_json, print_records, say, say_table
from pgflash.errors import PgflashError
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.words import duration

_COLUMNS = (
    "name",
    "state",
    "user",
    "data_directory",
    "where",
    "size_bytes",
    "age_s",
    "pids",
    "why",
)
_DIRECTORIES = click.option(
    "--data",
    "directories",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A data directory that it may belong to; those of running servers and the usual ones "
    "are known.",
)


@click.group(
    "memory",
    invoke_without_command=True,
    epilog=examples("pgflash memory", "pgflash memory remove", "pgflash memory --data /srv/pg"),
)
@_DIRECTORIES
@form_option()
@click.pass_context
def memory_command(context: click.Context, *, directories: tuple[Path, ...], form: str) -> None:
    """List the memory of caches in /dev/shm, and who uses it.

    A killed server leaves its memory for its next start, which is then warm. Remove it if the
    server will not be started again. Without root, only your own is listed.
    """
    context.obj = directories
    if context.invoked_subcommand is None:
        _print(api.memory(directories), form)


@memory_command.command(
    "remove",
    epilog=examples("pgflash memory remove", "pgflash memory remove pgflash.26.fe01.1c4a --yes"),
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def remove_command(directories: tuple[Path, ...], *, names: tuple[str, ...], yes: bool) -> None:
    """Remove memory that no server uses, or only NAMEs of it.

    A server that is started later on such a data directory has a cold cache.
    """
    found = [one for one in api.memory(directories) if one.name in names or not names]
    for name in set(names) - {one.name for one in found}:
        raise PgflashError(f'there is no "{name}" of yours', hint="'pgflash memory' lists them.")
    left = [one for one in found if one.state == "left over" or names]
    if not left:
        say("Nothing is left over.")
        return
    _print(left, "table")
    if not yes and not confirm("Remove it?"):
        return
    for one in left:
        api.memory_remove(one.name)
        say(f"Removed: {one.name}")


def _print(found: Sequence[api.CacheMemory], form: str) -> None:
    records = [{**asdict(one), "state": str(one.state)} for one in found]
    if form == "json":
        print_json(records)
    elif form == "csv":
        print_records(_COLUMNS, ({**one, "pids": _pids(one["pids"])} for one in records))
    elif not found:
        say("There is none.")
    else:
        say_table(_table(found))


def _table(found: Sequence[api.CacheMemory]) -> ReportTable:
    return ReportTable(
        id="memory",
        title="Memory of caches",
        columns=(
            text("name", "name"),
            text("state", "state"),
            text("user", "user"),
            text("data_directory", "data directory"),
            figure("size", "size", Unit.BYTES),
            text("age", "age"),
        ),
        rows=tuple(
            row(
                one.name,
                f"{one.state}: {one.why}" if one.why else str(one.state),
                one.user,
                one.data_directory or f"unknown: {one.where}",
                one.size_bytes,
                duration(one.age_s),
            )
            for one in found
        ),
    )


def _pids(pids: Sequence[int]) -> str:
    return " ".join(map(str, pids))
