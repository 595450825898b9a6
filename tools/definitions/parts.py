# SPDX-License-Identifier: PostgreSQL
"""Files with generated parts.

A part is between two lines of the file, `BEGIN generated: NAME` and `END generated: NAME`,
each in a comment of the file's language.
"""

import re
from collections.abc import Mapping
from pathlib import Path

_PART = re.compile(
    r"^(?P<begin>[^\n]*BEGIN generated: (?P<name>[\w.-]+)[^\n]*\n)"
    r".*?"
    r"(?P<end>^[^\n]*END generated: (?P=name)\b)",
    re.DOTALL | re.MULTILINE,
)


def with_parts(path: Path, parts: Mapping[str, str]) -> str:
    """Return the file's text with these parts, which must be exactly those it has."""
    text = path.read_text()
    names = [match["name"] for match in _PART.finditer(text)]
    if sorted(names) != sorted(parts):
        raise ValueError(f"{path} has the parts {sorted(names)}, not {sorted(parts)}")
    return _PART.sub(lambda match: match["begin"] + parts[match["name"]] + match["end"], text)
