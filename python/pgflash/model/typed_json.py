# SPDX-License-Identifier: PostgreSQL
"""JSON in files of pgflash: indented, so that people can read it, and typed when it is parsed.

The first field of a wrong type is named with its place in the file.
"""

from typing import TypeVar

import msgspec

from pgflash.errors import PgflashError

Value = TypeVar("Value")


def indented(value: object) -> bytes:
    """Return a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def parsed(
    text: bytes,
    kind: type[Value],
    *,
    name: str,
    noun: str,
    error: type[PgflashError],
    hint: str,
) -> Value:
    """Return a value of this kind, or raise ERROR: the file NAME is not a NOUN of pgflash."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise error(f'"{name}" is not a {noun} of pgflash: {wrong}.', hint=hint) from wrong
