"""Small C libraries that tests preload into a server, to make a call fail or wait."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path


def compile_shim(folder: Path, name: str, source: str) -> Path:
    """Return a library made of SOURCE, readable for the server's user."""
    path = folder / f"{name}.so"
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-x", "c", "-o", path, "-", "-ldl"],
        input=textwrap.dedent(source),
        text=True,
        check=True,
    )
    path.chmod(0o755)
    return path
