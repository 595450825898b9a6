# SPDX-License-Identifier: PostgreSQL
"""Messages on standard error while the page is served: at most one a minute for each cause.

Anyone who can reach the page can cause errors at any rate, and can choose parts of a message.  So a
cause is the place in the code that logs the message, and there is a fixed number of these; its next
line says how often it happened meanwhile.  A message is one line without control characters.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable

EVERY_S = 60.0
_LINE_MAX = 500


class Sayings(logging.Handler):
    """Writes at most one line a minute for each cause."""

    def __init__(
        self, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Write lines through a function."""
        super().__init__(logging.WARNING)
        self._say = say
        self._clock = clock
        #: When each cause was last logged, and how often it has occurred since.
        self._said: dict[tuple[str, int], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record's line, or count it."""
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return  # streams that were open when we stopped
        if record.name == "psycopg":
            return  # a lost session, which the page reports
        thing, now_s = (record.pathname, record.lineno), self._clock()
        said_s, more = self._said.get(thing, (-EVERY_S, 0))
        if now_s - said_s < EVERY_S:
            self._said[thing] = (said_s, more + 1)
            return
        self._said[thing] = (now_s, 0)
        since = f" ({more} times more since this was last said)" if more else ""
        self._say(f"{printable(_line(record))[:_LINE_MAX]}{since}")


def printable(text: str) -> str:
    """Return a text without control characters: escape sequences, line ends."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _line(record: logging.LogRecord) -> str:
    """Return a record's message, and the type and place of its exception, without traceback."""
    line = record.getMessage().strip()
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return line
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{line}: {type(error).__name__}: {error}{where}"
