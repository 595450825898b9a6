#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Print what a release depends on as CycloneDX JSON: tools/sbom.py SECONDS-SINCE-1970.

The libraries of the command and the lab are those of requirements.lock, with the hashes of the
archives that pip may choose from; what only the tests need is in requirements-dev.lock, with the
scope "excluded".  The one library inside our own files is the live page's chart library.  The
extension, core and the emulator link nothing but the C library.

The time is that of the release's commit, and the serial number a hash of all the rest, so the same
lock files give the same bytes.  This needs nothing but the standard library.
"""

import json
import re
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent

#: name==version, perhaps with a condition, and its hashes on the next lines.
_LOCKED = re.compile(
    r"^([A-Za-z0-9._-]+)==([^ ;\\]+)[^\n]*\\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M
)
_VENDORED = "python/pgflash/web/static/vendor/uPlot.iife.min.js"
#: The namespace of serial numbers, itself made of our name.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "pgflash")

Component = dict[str, Any]


class SbomError(Exception):
    """A lock file is not as this program understands it."""


def main(argv: list[str]) -> int:
    """Print the SBOM."""
    try:
        (seconds,) = map(int, argv)
    except ValueError:
        print("usage: tools/sbom.py SECONDS-SINCE-1970", file=sys.stderr)
        return 2
    print(json.dumps(sbom(REPOSITORY, datetime.fromtimestamp(seconds, UTC)), indent=2))
    return 0


def sbom(folder: Path, time: datetime) -> dict[str, Any]:
    """Return the SBOM of the release in a folder."""
    version = _found(r'^__version__ = "(.*)"$', folder / "python/pgflash/__init__.py")
    needed = list(locked((folder / "requirements.lock").read_text(), "required"))
    names = {one["name"] for one in needed}
    tested = locked((folder / "requirements-dev.lock").read_text(), "excluded")
    components = [*needed, *(one for one in tested if one["name"] not in names), _charts(folder)]
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": f"pgflash@{version}",
                "name": "pgflash",
                "version": version,
                "licenses": [{"expression": "PostgreSQL AND MIT"}],
            },
        },
        "components": components,
        "dependencies": [
            {
                "ref": f"pgflash@{version}",
                "dependsOn": sorted(
                    one["bom-ref"] for one in components if one["scope"] != "excluded"
                ),
            }
        ],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(body, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{serial}", **body}


def locked(text: str, scope: str) -> Iterator[Component]:
    """Yield the components of a lock file; a line that is not understood is an error."""
    end = 0
    for match in _LOCKED.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        name, version, hashes = match[1].lower().replace("_", "-"), match[2], match[3]
        yield {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "scope": scope,
            "purl": f"pkg:pypi/{name}@{version}",
            "hashes": [
                {"alg": "SHA-256", "content": content}
                for content in re.findall("sha256:([0-9a-f]{64})", hashes)
            ],
        }
    if end != len(text):
        raise SbomError(f"a lock file is not understood from {text[end : end + 60]!r} on")


def _charts(folder: Path) -> Component:
    """Return the chart library that is part of our own files."""
    version = _found(r"uPlot \(v([0-9.]+)\)", folder / _VENDORED)
    return {
        "type": "library",
        "bom-ref": f"pkg:npm/uplot@{version}",
        "name": "uplot",
        "version": version,
        "scope": "required",
        "licenses": [{"license": {"id": "MIT"}}],
        "purl": f"pkg:npm/uplot@{version}",
    }


def _found(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.M)
    if match is None:
        raise SbomError(f'there is no {pattern} in "{path}"')
    return match[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
