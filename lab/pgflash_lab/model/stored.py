# SPDX-License-Identifier: PostgreSQL
"""Convert a run to bytes and back.

JSON, so that other tools can read it; the type of every field is checked when it is read, and the
first error is named with its place in the file.
"""

from pgflash.errors import PgflashError
from pgflash.model.typed_json import indented, parsed
from pgflash_lab.model.run import FORMAT, Run


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
    return run
