# SPDX-License-Identifier: PostgreSQL
"""A paper is one file: an invented one gets its page, and errors in a wrong one are named."""

import inspect
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pgflash.cli import main
from pgflash_lab.model import paper as form
from pgflash_lab.model.exhibit import Verdict
from pgflash_lab.model.formula import FORMS
from pgflash_lab.model.paper import PAPERS, Paper, PaperError, read_paper, read_paper_file
from pgflash_lab.pages import paper_page
from pgflash_lab.report.paper import build_page, host, render_paper_html, render_paper_text
from pgflash_lab.report.paper.evaluate import FUNCTIONS, SETS
from pgflash_lab.report.paper.load import FIGURES
from pgflash_lab.store import attempt_name, write_period, write_run
from support.paper_runs import run_000

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "papers.md"
#: The example of the reference: an invented paper.
SIXTH = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.S)[0]


def paper_in(folder: Path, text: str = SIXTH) -> Path:
    path = folder / "005.toml"
    path.write_text(text)
    return path


def test_a_sixth_paper_is_one_file(tmp_path: Path) -> None:
    run, reports = run_000()
    page = paper_page(run, reports, read_paper_file(paper_in(tmp_path)))
    assert page is not None
    (exhibit,) = page.exhibits
    # The run has paper 000's commits, 11,236,170 over 8,272,975; the invented paper prints 1.5.
    (check,) = exhibit.checks
    assert check.says == (
        "Throughput, as a multiple of the baseline: 1.50 in the paper, 1.36 here; "
        "within a factor of 2."
    )
    assert exhibit.verdict is Verdict.AGREES
    assert exhibit.paper is not None
    assert exhibit.paper.rows[1].cells == ("flash-cache", "1.5K")
    assert exhibit.ours is not None
    assert exhibit.ours.rows[0].cells[0] == "log file sync"
    assert exhibit.charts[0].series[0].values[:2] == (1.0, 1.5)
    assert "Flash for everybody" in render_paper_html(page)


def test_the_command_sets_a_run_beside_any_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, reports = run_000()
    folder = tmp_path / "runs" / run.id
    write_run(folder, run)
    for place, one in enumerate(run.attempts):
        write_period(folder, attempt_name(place, one.approach), reports[one.approach])
    paper = str(paper_in(tmp_path))
    assert main(["lab", "paper", "--store", str(tmp_path), "--paper", paper]) == 0
    assert capsys.readouterr().out.startswith("Paper 005: Flash for everybody")
    paper_in(tmp_path, SIXTH.replace("within", "nearly"))
    assert main(["lab", "paper", "--store", str(tmp_path), "--paper", paper]) == 2
    assert "checks 1, kind: invalid value 'nearly'; allowed: direction" in capsys.readouterr().err


def test_without_a_run_s_approaches_it_says_what_is_missing(tmp_path: Path) -> None:
    run, _ = run_000()
    page = build_page(
        read_paper_file(paper_in(tmp_path)),
        replace(run, attempts=()),
        {},
    )
    assert page.exhibits[0].missing == (
        "Not measured: the run ended before an attempt of Everything on the array."
    )
    assert page.exhibits[0].checks == ()
    assert render_paper_text(page)


WRONG = [
    # The text to replace, its replacement, and the message.
    ('id = "005"', "id = 5", "005.toml, id: expected `str`, got `int`"),
    ('by = "A. N. Other, 2026"', "", "top level: object missing required field `by`"),
    (
        "reason =",
        "raison =",
        'exhibit "fig-1": object contains unknown field `raison`; allowed: ch',
    ),
    ('kind = "within"', 'kind = "near"', 'exhibit "fig-1", checks 1, kind: invalid value'),
    ('kind = "within"', "", "checks 1: object missing required field `kind`; allowed: direction"),
    ("what =", 'sort = "x"\nwhat =', "checks 1: object contains unknown field `sort`; allowed: bo"),
    ('form = "bars"', 'form = "pies"', "charts 1, form: invalid enum value 'pies'"),
    ("'ratio(\"flash-cache\")'", "'ratio(\"flash-cache\"'", "is no formula"),
    ("'ratio(\"flash-cache\")'", "'[one for one in all]'", "a formula has no"),
    ("'ratio(\"flash-cache\")'", "'rotio(\"flash-cache\")'", "asks for rotio(); allowed: answers"),
    (
        "'ratio(\"flash-cache\")'",
        "'ratio(\"flash-cahce\")'",
        'paper 005, exhibit "fig-1", checks 1, both: "ratio("flash-cahce")" names the approach '
        '"flash-cahce"; allowed: all-on-flash, baseline, flash-cache',
    ),
    (
        "'tpm(approach) / tpm(\"baseline\")'",
        "'tpm(approach) / tpm(\"base\")'",
        'paper 005, figures, ratio, ours: "tpm(approach) / tpm("base")" names the approach "base"',
    ),
    (
        "'ratio(approach)'",
        '\'ratio(approach) * (approach in ("baseline", "flash"))\'',
        'charts 1, both: "ratio(approach) * (approach in ("baseline", "flash"))" '
        'names the approach "flash"',
    ),
    ("'ratio(\"flash-cache\")'", "'tpm()'", "checks 1: tpm(): missing a required argument"),
    ("'ratio(\"flash-cache\")'", "'tpm(way)'", "checks 1: no variable way"),
    ("'ratio(\"flash-cache\")'", "'sum(ways, 1)'", "checks 1: no set ways; there are answered"),
    (
        "'ratio(\"flash-cache\")'",
        '\'said("fig-1", "all-flash", "Throughput")\'',
        'paper 005, exhibit "fig-1", checks 1: Figure 1 has no row all-flash',
    ),
    ('what = "Throughput', 'what = "{speed}', "checks 1: no variable speed"),
    ("[sets]", '[[says]]\nof_check = "fig-2"\n[sets]', "says 1: no exhibit fig-2; there are fig-1"),
    ('["baseline", "1,000"]', '["baseline"]', "has 1 cells for 2 columns"),
    ('id = "fig-1"', 'id = "fig-1', "is not TOML"),
]


@pytest.mark.parametrize(("old", "new", "says"), WRONG)
def test_what_a_file_cannot_say_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in SIXTH
    run, reports = run_000()
    with pytest.raises(PaperError) as caught:
        build_page(read_paper_file(paper_in(tmp_path, SIXTH.replace(old, new))), run, reports)
    assert says in caught.value.message
    assert "papers.md" in caught.value.hint


def test_two_exhibits_have_two_ids(tmp_path: Path) -> None:
    twice = SIXTH + SIXTH[SIXTH.index("[[exhibits]]") :]
    with pytest.raises(PaperError, match='two exhibits "fig-1"'):
        read_paper_file(paper_in(tmp_path, twice))


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(PaperError, match="could not read the paper"):
        read_paper_file(Path("/nowhere/005.toml"))


@pytest.mark.parametrize("paper_id", PAPERS)
def test_the_papers_of_the_package_are_read(paper_id: str) -> None:
    paper = read_paper(paper_id)
    assert isinstance(paper, Paper)
    assert paper.id == paper_id
    for one in paper.exhibits:
        assert one.rows or one.derived or one.report_table().missing_reason


def test_the_reference_names_everything_that_a_file_may_say() -> None:
    said = PAGE.read_text()
    entries = [one for _, one in inspect.getmembers(form, inspect.isclass)
               if issubclass(one, msgspec.Struct)]  # fmt: skip
    keys = {key for one in entries for key in one.__struct_fields__}
    keys -= {"commits", "ratio"}  # of figures that are computed
    kinds = {str(one.__struct_config__.tag) for one in entries} - {"None", "_Check"}
    words = set(re.findall(r"\w+", said))
    load = {name for name in FIGURES if not name.endswith(("_peak", "_mean"))}
    assert {*keys, *kinds, *FUNCTIONS, *FORMS, *SETS, *host.LINES, *load} - words == set()
