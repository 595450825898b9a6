#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write all files that are generated from definitions/.

tools/generate.py           write them
tools/generate.py --check   exit 1 if one is not what it should be
"""

import sys
from pathlib import Path

from definitions import (
    ROOT,
    counters,
    metrics,
    row_types,
    settings,
    snapshot_sections,
    sql,
    views_page,
    wait_classes,
)

#: Each makes files of one kind.
MODULES = (
    counters,
    sql,
    row_types,
    views_page,
    metrics,
    settings,
    wait_classes,
    snapshot_sections,
)


def stale() -> dict[Path, str]:
    """Return the files that are not as generated, with what they should hold."""
    files = {path: text for module in MODULES for path, text in module.generated().items()}
    return {
        path: text for path, text in files.items() if not path.exists() or path.read_text() != text
    }


def main() -> int:
    """Write or check the files."""
    files = stale()
    for path, text in files.items():
        name = path.relative_to(ROOT)
        if "--check" in sys.argv[1:]:
            print(f"{name} is not what definitions/ says: run make generate")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(name)
    return 1 if files and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
