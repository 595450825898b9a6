# SPDX-License-Identifier: PostgreSQL
"""Pages that other distributions add to the live page.

Each is an entry point of the group GROUP: a function that takes the folder of --store and returns a
GuestPage.  Its routes are behind the same Guard as ours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

GROUP = "pgflash.pages"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestPage:
    """A page in the menu, and its routes."""

    #: Its name in the menu.
    title: str
    #: "/name"; its other routes are below it, or below /live.
    path: str
    #: The package with its template in templates/; a template may extend frame.html.
    package: str
    template: str
    #: Returns the template's values; called in a thread.
    contents: Callable[[], Mapping[str, object]]
    #: Other paths and their handlers.
    routes: tuple[tuple[str, Callable[..., object]], ...] = ()
    #: The beginning of the paths of files that were made elsewhere.  Their answers have a
    #: Content-Security-Policy of their own, which must be stricter than ours.
    files: str = ""


def guest_pages(store: Path | None) -> tuple[GuestPage, ...]:
    """Return the pages of the distributions that are installed; none without a folder for them."""
    if store is None:
        return ()
    return tuple(point.load()(store) for point in entry_points(group=GROUP))
