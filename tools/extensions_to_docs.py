#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write docs/reference/extensions.md from what make extensions-check has found."""

import json
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
FOUND = REPOSITORY / "out" / "extensions-check"
PAGE = REPOSITORY / "docs" / "reference" / "extensions.md"

HEAD = """\
# Extensions beside pgflash

Each package that Debian 12 has for PostgreSQL 15 was tested on a separate server with
`pgflash.verify = all`: its library was preloaded if it requires that, its extensions were created
and used a little, while tables were filled, updated, vacuumed, truncated and rewritten. Written by
`make extensions-check`.

*Changes files by* lists the imports of the package's own libraries that could change a file
(except open and sync calls). *Watched* are the libraries loaded with it, including dependencies,
whose calls pgflash redirected. *Hits* were compared with the file.
"""


def row(found: dict[str, Any]) -> str:
    """Return a row of the table."""
    watched = found["watched"]
    shown = ", ".join(watched[:4]) + (f" and {len(watched) - 4} more" if len(watched) > 4 else "")
    outcome = found["outcome"]
    if found["remark"]:
        outcome += f" ({found['remark']})"
    cells = (
        found["package"],
        found["version"],
        "yes" if found["preload"] else "",
        ", ".join(found["changers"]),
        shown,
        f"{found['compared']:,}",
        str(found["wrong"]),
        outcome,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(all_found: list[dict[str, Any]]) -> str:
    """Return the whole page."""
    hits = sum(found["compared"] for found in all_found)
    wrong = sum(found["wrong"] for found in all_found)
    return "\n".join(
        [
            HEAD,
            f"{len(all_found)} trials, {hits:,} hits compared, {wrong} wrong.\n",
            "| package | version | preloaded | changes files by | watched | hits | wrong"
            " | outcome |",
            "|---|---|---|---|---|---|---|---|",
            *(row(found) for found in all_found),
            "",
        ]
    )


def main() -> int:
    """Write the page; 1 if nothing was found."""
    all_found = [json.loads(path.read_text()) for path in sorted(FOUND.glob("*.json"))]
    if not all_found:
        print(
            "Nothing was found in out/extensions-check: run make extensions-check", file=sys.stderr
        )
        return 1
    PAGE.write_text(page(all_found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
