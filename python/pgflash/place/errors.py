# SPDX-License-Identifier: PostgreSQL
"""Why something is not moved."""

from pgflash.errors import PgflashError


class PlaceError(PgflashError):
    """A move is refused, or it failed and nothing half done is in use."""


class GoneError(PlaceError):
    """What is to be moved does not exist, or does not exist any more."""
