# SPDX-License-Identifier: PostgreSQL
"""A program on a terminal of its own, as a person sees it."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from support.patience import PATIENCE_S

#: Codes that move the cursor, colour the text, or tell the terminal about itself.
_CODES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])|[\x07\x0e\x0f]")

PGFLASH = (sys.executable, "-m", "pgflash")


@dataclass(kw_only=True)
class Terminal:
    """A running program, and what it has written so far."""

    child: "subprocess.Popen[bytes]"
    end: int
    #: Bytes: a read may end in the middle of a character.
    written: bytearray = field(default_factory=bytearray)

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self.end, keys.encode())

    def read(self) -> None:
        """Read what has been written since; a read that gets nothing ends with the test."""
        self.written += os.read(self.end, 65536)

    def until(self, words: str) -> str:
        """Read until words have been written."""
        while words not in self.text:
            self.read()
        return self.text

    def rest(self) -> str:
        """Read until the program ends, and return all that it has written."""
        with contextlib.suppress(OSError):  # what a terminal says once its last user is gone
            while more := os.read(self.end, 65536):
                self.written += more
        self.child.wait(PATIENCE_S)
        return self.text

    @property
    def codes_and_text(self) -> str:
        """What has been written."""
        return self.written.decode(errors="replace")

    @property
    def text(self) -> str:
        """What has been written, without codes."""
        return _CODES.sub("", self.codes_and_text).replace("\r", "")


@contextlib.contextmanager
def terminal(
    command: Sequence[str],
    *,
    columns: int = 80,
    lines: int = 24,
    environment: Mapping[str, str | None] | None = None,
) -> Iterator[Terminal]:
    """Run a program on a terminal; it is killed at the end unless it has ended.

    A variable that is None is not set.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    size = {"COLUMNS": str(columns), "LINES": str(lines)}
    variables = {**os.environ, "TERM": "xterm-256color", **size, **(environment or {})}
    child = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={name: one for name, one in variables.items() if one is not None},
    )
    os.close(theirs)
    try:
        yield Terminal(child=child, end=ours)
    finally:
        child.kill()
        child.wait()
        os.close(ours)
