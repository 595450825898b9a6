# SPDX-License-Identifier: PostgreSQL
"""The first lines of generated C, Python and Markdown, and string literals of C."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from definitions import NOTICE

MARKDOWN_NOTICE = f"<!-- {NOTICE} -->\n"


def c_string(text: str) -> str:
    """Return a string literal of C."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def def_file(path: Path, summary: str, macros: Sequence[str], lines: Sequence[str]) -> str:
    """Return a list that C includes with its own definitions of some of the macros."""
    empty = "\n".join(f"#ifndef {macro}\n#define {macro}(...)\n#endif" for macro in macros)
    undone = "\n".join(f"#undef {macro}" for macro in macros)
    said = "\n".join(f" *\t\t{line}" for line in summary.splitlines())
    return f"""\
/*
 * {path.name}
{said}
 *
 * {NOTICE}
 * Files include it with their own definitions of some of its macros.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
{empty}

{chr(10).join(lines)}

{undone}
"""


def python_head(summary: str) -> str:
    """Return the first lines of a module."""
    return f'# SPDX-License-Identifier: PostgreSQL\n"""{summary}\n\n{NOTICE}\n"""\n\n'


def python_string(text: str, *, indent: int, before: int) -> str:
    """Return a literal that begins in a column, in as many lines as the formatter uses."""
    width = 100 - indent - before - len('"",')
    if len(text) <= width:
        return f'"{text}"'
    lines = textwrap.wrap(text, width, drop_whitespace=False)
    return f"\n{' ' * indent}".join(f'"{line}"' for line in lines)


def python_tuple(words: Sequence[str], *, indent: int = 0, width: int = 100) -> str:
    """Return a tuple of strings as ruff formats it, after a name in a line of this indent."""
    quoted = [f'"{word}"' for word in words]
    line = f"({', '.join(quoted)}{',' if len(quoted) == 1 else ''})"
    if indent + len("columns=") + len(line) + 1 <= width:
        return line
    inner = " " * (indent + 4)
    return "(\n" + "".join(f"{inner}{word},\n" for word in quoted) + " " * indent + ")"
