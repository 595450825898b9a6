# SPDX-License-Identifier: PostgreSQL
"""Why something is not moved."""

from pgflash.errors import PgflashError


class PlaceError(PgflashError):
    """A move is refused, or it failed without leaving anything half done in use."""


class GoneError(PlaceError):
    """The object to be moved does not exist, or no longer exists."""
