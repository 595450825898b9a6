# SPDX-License-Identifier: PostgreSQL
"""Write YAML: mappings, lists and plain values; strings of several lines as blocks.

A string of one line is written as JSON writes it, which YAML reads as the same.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def yaml_text(value: Mapping[str, Any]) -> str:
    """Return a mapping as a document."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Mapping[str, Any] | Sequence[Any]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _entry(f"{key}:", one)
        return
    for one in value:
        if isinstance(one, Mapping):
            first, *rest = _lines(one)
            yield f"- {first}"
            yield from _indented(rest)
        else:
            yield from _entry("-", one)


def _entry(begin: str, value: object) -> Iterator[str]:
    """Yield a key or the mark of an item, with its value behind or below it."""
    if isinstance(value, str) and "\n" in value:
        yield f"{begin} |"
        yield from _indented(value.rstrip("\n").split("\n"))
    elif isinstance(value, Mapping) or (isinstance(value, list) and _is_nested(value)):
        yield begin
        yield from _indented(_lines(value))
    else:
        yield f"{begin} {json.dumps(value, ensure_ascii=False)}"


def _is_nested(values: Sequence[Any]) -> bool:
    return any(isinstance(one, Mapping | list) or "\n" in str(one) for one in values)


def _indented(lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}" if line else ""
