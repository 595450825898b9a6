# SPDX-License-Identifier: PostgreSQL
"""What pgflash raises.

Every error that a user may see is a PgflashError: it carries the exit code of the command line and
a hint, one sentence that says what to do next.  The command line prints message and hint; a
traceback appears only under --debug.  A room that needs its own kind of error subclasses this in
the module that raises it.
"""


class PgflashError(Exception):
    """Something the user can understand and act on."""

    #: Exit code of the command line. 1: it failed; 2: the request was wrong.
    exit_code: int = 1

    def __init__(self, message: str, *, hint: str = "", exit_code: int | None = None) -> None:
        """Take what went wrong and, in the hint, what to do next."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        """Return the message with its hint, for use outside the command line."""
        return f"{self.message}\nHINT: {self.hint}" if self.hint else self.message


class UsageError(PgflashError):
    """The command or call was used wrongly."""

    exit_code = 2
