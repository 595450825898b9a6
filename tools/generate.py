#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write all files that are generated from definitions/.

tools/generate.py           write them
tools/generate.py --check   exit 1 if one is not what it should be
"""

import importlib
import pkgutil
import sys
from pathlib import Path

import definitions


def generated() -> dict[Path, str]:
    """Return what the modules of definitions make, each files of one kind."""
    names = (f"definitions.{found.name}" for found in pkgutil.iter_modules(definitions.__path__))
    makers = (vars(importlib.import_module(name)).get("generated") for name in names)
    return {path: text for maker in filter(None, makers) for path, text in maker().items()}


def stale() -> dict[Path, str]:
    """Return the files that are not as generated, with what they should hold."""
    return {
        path: text
        for path, text in generated().items()
        if not path.exists() or path.read_text() != text
    }


def main() -> int:
    """Write or check the files."""
    files = stale()
    for path, text in files.items():
        name = path.relative_to(definitions.ROOT)
        if "--check" in sys.argv[1:]:
            print(f"{name} is not what definitions/ says: run make generate")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(name)
    return 1 if files and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
