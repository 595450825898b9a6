# SPDX-License-Identifier: PostgreSQL
"""A stored run names no file outside its folder."""

from dataclasses import replace

import pytest

from pgflash_lab.model.run import Run, is_name
from pgflash_lab.model.stored import StoredRunError, run_from_json, run_to_json
from support.runs import BASELINE, FLASH_CACHE, attempt, run_of

RUN = run_of(attempt(BASELINE, tpm=100.0), approaches=(BASELINE, FLASH_CACHE))
PATH = "../../home/x"


@pytest.mark.parametrize(
    ("place", "run"),
    [
        ("$.id", replace(RUN, id="/srv/app/x")),
        ("$.scenario", replace(RUN, scenario=PATH)),
        ("$.approaches[1].name", replace(RUN, approaches=(BASELINE, replace(BASELINE, name=PATH)))),
        ("$.approaches[0].base", replace(RUN, approaches=(replace(BASELINE, base="q/index"),))),
        ("$.attempts[0].approach", replace(RUN, attempts=(replace(RUN.attempts[0], approach=""),))),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_with_its_place(place: str, run: Run) -> None:
    with pytest.raises(StoredRunError) as refused:
        run_from_json(run_to_json(run), name="run.json")
    assert place in refused.value.message


def test_names_as_they_are_given_are_taken() -> None:
    assert run_from_json(run_to_json(RUN), name="run.json") == RUN
    assert all(map(is_name, ("20261122-124544-flash-cache", "A_b.c-1", "0", "x" * 100)))


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "-x", "a/b", "a\nb", "a\n", "x" * 101, "\u00e9"]
)
def test_other_texts_are_no_names(name: str) -> None:
    assert not is_name(name)
