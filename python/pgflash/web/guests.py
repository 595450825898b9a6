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
    """A page of the menu, and what belongs to it."""

    #: Its name in the menu.
    title: str
    #: "/name"; its own routes are below it, or below /live.
    path: str
    #: The package whose folder templates/ has its template, which may extend frame.html.
    package: str
    template: str
    #: Return what the template shows; called in a thread.
    contents: Callable[[], Mapping[str, object]]
    #: Further paths and their handlers.
    routes: tuple[tuple[str, Callable[..., object]], ...] = ()
    #: How the paths of files begin that were made elsewhere: their answers have a
    #: Content-Security-Policy of their own, which must be stricter than ours.
    files: str = ""


def guest_pages(store: Path) -> tuple[GuestPage, ...]:
    """Return the pages of the distributions that are installed."""
    return tuple(point.load()(store) for point in entry_points(group=GROUP))
