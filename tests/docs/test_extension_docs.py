# SPDX-License-Identifier: PostgreSQL
"""The reference of the extension is complete."""

import json
import re

import pgflash
from support.cluster import REPOSITORY
from support.script import RELEASED, SOURCES, SQL_VERSION

#: The scripts that CREATE EXTENSION runs.
SCRIPTS = ("tables.sql", "views.sql", "functions.sql")
SQL = "".join((SOURCES / name).read_text() for name in SCRIPTS[1:])
VIEWS = (REPOSITORY / "docs/reference/views.md").read_text()


def test_every_function_for_people_is_documented() -> None:
    functions = re.findall(r"CREATE FUNCTION (\w+)\(", SQL)
    for name in functions:
        if not name.endswith(("_row", "_rows", "_in", "_out")):
            assert f"### {name}(" in VIEWS


def test_the_rights_of_functions_are_those_that_are_granted() -> None:
    sections = re.findall(r"^### (\w+)\((.*?)(?=^###? |\Z)", VIEWS, re.M | re.S)
    granted = set(re.findall(r"GRANT EXECUTE ON FUNCTION (\w+)\(.*\) TO pg_monitor", SQL))
    said = {name for name, text in sections if "`pg_monitor` may call it" in " ".join(text.split())}
    assert said == granted & {name for name, _ in sections}
    introduction = VIEWS.partition("\n## ")[0]
    for name in re.findall(r"GRANT SELECT ON (\w+) TO PUBLIC", SQL):
        assert name == "pgflash_cache_policies" or f"`{name}`" in introduction


def test_every_table_and_view_is_documented() -> None:
    scripts = "".join((SOURCES / name).read_text() for name in (*SCRIPTS, "from-0.1.sql"))
    for name in re.findall(r"CREATE (?:UNLOGGED )?(?:TABLE|VIEW) (\w+)", scripts):
        assert f"\n## {name}\n" in VIEWS


def test_a_release_has_one_version() -> None:
    (heading,) = re.findall(r"\A# Changelog\n\n## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text())
    assert heading.rstrip(",") == pgflash.__version__
    assert pgflash.__version__.rsplit(".", 1)[0] == SQL_VERSION


def test_every_package_has_the_version_of_the_release() -> None:
    (debian,) = re.findall(r"\Apgflash \((.*)-\d+\)", (REPOSITORY / "debian/changelog").read_text())
    spec = (REPOSITORY / "packaging/rpm/pgflash.spec").read_text()
    pgxn = json.loads((REPOSITORY / "META.json").read_text())
    assert debian == pgflash.__version__
    assert re.findall(r"^Version: +(.*)$", spec, re.M) == [pgflash.__version__]
    assert re.findall(r"^\* .* - (.*)-\d+PGDG$", spec, re.M)[0] == pgflash.__version__
    assert [pgxn["version"], pgxn["provides"]["pgflash"]["version"]] == [pgflash.__version__] * 2


def test_every_package_is_for_the_same_majors() -> None:
    """15 is the first; the last is whatever a distribution has, up to what `make install` takes."""
    (taken,) = re.findall(r"^([\d |]+)\) ;;$", (REPOSITORY / "tools/install.sh").read_text(), re.M)
    first = taken.split(" | ")[0]
    pgxn = json.loads((REPOSITORY / "META.json").read_text())
    assert (REPOSITORY / "debian/pgversions").read_text() == f"{first}+\n"
    assert pgxn["prereqs"]["runtime"]["requires"] == {"PostgreSQL": f"{first}.0.0"}


def test_every_manual_page_is_in_one_package() -> None:
    listed = [
        line
        for name in ("pgflash", "pgflash-lab")
        for line in (REPOSITORY / f"debian/{name}.manpages").read_text().split()
    ]
    pages = (REPOSITORY / "share").rglob("*.1")
    assert sorted(listed) == sorted(str(page.relative_to(REPOSITORY)) for page in pages)


def test_the_sql_of_a_release_is_not_changed() -> None:
    script = "".join((SOURCES / name).read_text() for name in SCRIPTS)
    assert not RELEASED.exists() or RELEASED.read_text() == script
