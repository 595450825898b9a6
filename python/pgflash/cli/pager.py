# SPDX-License-Identifier: PostgreSQL
"""A pager for what is longer than the terminal, as psql has it.

The program is the one of PSQL_PAGER or of PAGER, by a shell; "" means none.  If neither is set it
is less, which leaves lines as they are (-S) and ends by itself at the last line (-F), or more.  No
pager is used for output to a pipe or a file, or if it fits the window.
"""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

_VARIABLES = ("PSQL_PAGER", "PAGER")
_LESS = "SFRX"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: How a shell says that there is no such program, or that it may not be run.
_NOT_RUN = (126, 127)


class _Page(io.StringIO):
    """Output that is kept until its length is known; it is for a terminal."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def paged(*, wanted: bool) -> Iterator[None]:
    """Show what is printed meanwhile in a pager, if it is wanted, needed, and there is one."""
    program = _program()
    if not wanted or not program or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield
        return
    screen, page = sys.stdout, _Page()
    sys.stdout = page
    try:
        yield
    finally:
        sys.stdout = screen
        text = page.getvalue()
        if _fits(text) or not _show(program, text):
            screen.write(text)
            screen.flush()


def _program() -> str:
    for variable in _VARIABLES:
        if variable in os.environ:
            return os.environ[variable].strip()
    if shutil.which("less"):
        return f"less -{_LESS}"
    return "more" if shutil.which("more") else ""


def _fits(text: str) -> bool:
    size = shutil.get_terminal_size()
    lines = _COLOURS.sub("", text).splitlines()
    # The prompt that follows needs a line, too.
    return sum(max(-(-len(line) // size.columns), 1) for line in lines) < size.lines


def _show(program: str, text: str) -> bool:
    """Show a text; False if there is no such program."""
    environment = {"LESS": _LESS, **os.environ}
    child = subprocess.Popen(program, shell=True, stdin=subprocess.PIPE, env=environment)
    # Ctrl-C is the pager's.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with contextlib.suppress(BrokenPipeError):  # it need not be read to its end
            child.communicate(text.encode(errors="replace"))
        return child.wait() not in _NOT_RUN
    except KeyboardInterrupt:  # we are asked to end
        child.terminate()
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
