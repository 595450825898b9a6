# SPDX-License-Identifier: PostgreSQL
"""The contents of an HTML page as a reader sees them: its tags, its text, its tables."""

from html.parser import HTMLParser

#: Elements without an end tag.
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Page(HTMLParser):
    """The tags and the visible text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.scripts: list[str] = []
        #: Tags that were closed although another one had been opened last.
        self.crossed: list[str] = []
        self.feed(page)

    @property
    def ids(self) -> list[str]:
        """All ids, in their order."""
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.crossed.append(tag)
        if tag in self.open:
            self.open.reverse()
            self.open.remove(tag)
            self.open.reverse()

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.text += data.replace("\N{NO-BREAK SPACE}", " ")
