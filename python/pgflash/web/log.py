# SPDX-License-Identifier: PostgreSQL
"""Messages on standard error while the page is served: a line a minute about each thing.

Anyone who can reach the page can cause errors as often as they like, and can choose parts of a
message.  So a "thing" is the place in the code that logs the message, and the number of such places
is fixed; its next line says how often it happened.  A message is one line, without characters that
a terminal obeys.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable

EVERY_S = 60.0
_LINE_MAX = 500


class Sayings(logging.Handler):
    """Says each thing once a minute."""

    def __init__(
        self, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Write lines through a function."""
        super().__init__(logging.WARNING)
        self._say = say
        self._clock = clock
        #: When a thing was last logged, and how often it has happened since.
        self._said: dict[tuple[str, int], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log a thing, or count it."""
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return  # viewers' streams at our own end
        if record.name == "psycopg":
            return  # a session that broke, which the page says in its own words
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
    """Return a message; of an exception its kind and place, without the traceback."""
    line = record.getMessage().strip()
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return line
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{line}: {type(error).__name__}: {error}{where}"
