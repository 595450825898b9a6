# SPDX-License-Identifier: PostgreSQL
"""The list of what a release depends on has everything in the lock files, once."""

import re
from datetime import UTC, datetime

import pytest

import sbom
from support.cluster import REPOSITORY

TIME = datetime(2026, 11, 24, tzinfo=UTC)

#: A name and a version at the beginning of a line.
PINNED = re.compile(r"^([a-zA-Z0-9-]+)==(\S+)", re.M)


def test_every_locked_library_is_in_it_once_with_its_hashes() -> None:
    found = sbom.sbom(REPOSITORY, TIME)["components"]
    shown = [(one["name"], one["version"], one["scope"]) for one in found if "pypi" in one["purl"]]
    needed = set(PINNED.findall((REPOSITORY / "requirements.lock").read_text()))
    tested = set(PINNED.findall((REPOSITORY / "requirements-dev.lock").read_text())) - needed
    assert min(len(needed), len(tested)) > 5
    assert sorted(shown) == sorted(
        [(*one, "required") for one in needed] + [(*one, "excluded") for one in tested]
    )
    hashes = [hash_["content"] for one in found for hash_ in one.get("hashes", ())]
    text = (REPOSITORY / "requirements-dev.lock").read_text()
    assert sorted(hashes) == sorted(re.findall("sha256:([0-9a-f]{64})", text))


def test_the_chart_library_inside_our_files_is_in_it() -> None:
    names = {one["name"]: one for one in sbom.sbom(REPOSITORY, TIME)["components"]}
    assert names["uplot"]["licenses"] == [{"license": {"id": "MIT"}}]
    vendored = REPOSITORY / "python/pgflash/web/static/vendor/uPlot.iife.min.js"
    assert f"(v{names['uplot']['version']})" in vendored.read_text(encoding="utf-8")


def test_what_is_needed_is_said_of_the_release() -> None:
    whole = sbom.sbom(REPOSITORY, TIME)
    (needs,) = whole["dependencies"]
    assert needs["ref"] == whole["metadata"]["component"]["bom-ref"]
    refs = {one["bom-ref"]: one["scope"] for one in whole["components"]}
    assert len(refs) == len(whole["components"])
    assert set(needs["dependsOn"]) == {ref for ref, scope in refs.items() if scope == "required"}


def test_it_depends_on_nothing_but_its_sources_and_the_time() -> None:
    one, same = (sbom.sbom(REPOSITORY, TIME) for _ in range(2))
    other = sbom.sbom(REPOSITORY, datetime(2027, 1, 1, tzinfo=UTC))
    assert one == same
    assert one["serialNumber"] != other["serialNumber"]


@pytest.mark.parametrize(
    "text",
    [
        "click==8.5.1\n",  # without a hash
        "click @ file:///click\n",
        "click==8.5.1 \\\n    --hash=md5:0\n",
    ],
)
def test_a_line_that_is_not_understood_is_an_error(text: str) -> None:
    good = f"anyio==4.16.0 \\\n    --hash=sha256:{'0' * 64}\n"
    assert [one["name"] for one in sbom.locked(good, "required")] == ["anyio"]
    with pytest.raises(sbom.SbomError, match="click"):
        list(sbom.locked(good + text, "required"))
