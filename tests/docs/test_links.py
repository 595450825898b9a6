# SPDX-License-Identifier: PostgreSQL
"""The targets of links exist: files, headings, tests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md")))


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Return what a link into a page can name, as GitHub makes it of headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def links(page: Path) -> Iterator[str]:
    """Yield where the links of a page lead, within the repository."""
    without_code = re.sub(r"`[^`\n]*`", "`", prose(page))
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code):
        if "://" not in target:
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_test_that_is_named_is_there(page: Path) -> None:
    for name, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text()):
        source = (REPOSITORY / name).read_text()
        assert not test or f"\ndef {test}(" in source, test


def test_every_guide_is_in_the_readme() -> None:
    readme = set(links(REPOSITORY / "README.md"))
    for guide in (REPOSITORY / "docs" / "guide").glob("*.md"):
        assert str(guide.relative_to(REPOSITORY)) in readme


def test_every_claim_about_a_failure_names_a_test() -> None:
    page = (REPOSITORY / "docs/guide/what-if-it-fails.md").read_text()
    for section in page.split("\n## ")[1:]:
        assert "::test_" in section, section.partition("\n")[0]
