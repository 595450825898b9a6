# SPDX-License-Identifier: PostgreSQL
"""Convert a run to bytes and back.

JSON, so that other tools can read it; the type of every field is checked when it is read, and the
first error is named with its place in the file.  So is a name that could lead to another folder:
files are named after runs, scenarios and approaches, and a run may be somebody else's.
"""

from collections.abc import Iterator

from pgflash.errors import PgflashError
from pgflash.model.typed_json import indented, parsed
from pgflash_lab.model.run import FORMAT, Run, is_name


class StoredRunError(PgflashError):
    """A stored run cannot be read."""


def run_to_json(run: Run) -> bytes:
    """Return the run as indented JSON."""
    return indented(run)


def run_from_json(text: bytes, *, name: str) -> Run:
    """Parse a run; NAME is the file's name in errors."""
    run = parsed(
        text,
        Run,
        name=name,
        noun="run",
        error=StoredRunError,
        hint="Name a run of 'pgflash lab show', its directory, or its run.json.",
    )
    if run.format != FORMAT:
        raise StoredRunError(
            f'"{name}" has format {run.format}; this version reads format {FORMAT}.',
            hint="Render it with the version of pgflash that made it, or run it again.",
        )
    for place, value in _names(run):
        if not is_name(value):
            raise StoredRunError(
                f'"{name}" is not a run of pgflash: "{value}" cannot be a name - at `{place}`.',
                hint="A name is of letters, digits, dots, dashes and underscores.",
            )
    return run


def _names(run: Run) -> Iterator[tuple[str, str]]:
    """Yield everything of which a file's name may be made, with its place."""
    yield "$.id", run.id
    yield "$.scenario", run.scenario
    for number, approach in enumerate(run.approaches):
        yield f"$.approaches[{number}].name", approach.name
        if approach.base:
            yield f"$.approaches[{number}].base", approach.base
    for number, attempt in enumerate(run.attempts):
        yield f"$.attempts[{number}].approach", attempt.approach
