# SPDX-License-Identifier: PostgreSQL
"""The lab's runs as the live page shows them, and their pages, which run nothing."""

import base64
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.progress import Listener
from pgflash.web.security import CSP
from pgflash_lab import journal
from pgflash_lab.pages import write_products
from pgflash_lab.store import REPORT_FILE, RUN_FILE, Store, write_run
from pgflash_lab.web.shelf import RUNS_MAX, NoSuchRunError, Shelf, page_policy
from support.runs import BASELINE, FLASH_CACHE, attempt, run_of, whole_run
from support.served import Served, served

WHOLE = "20261121-200000-oltp-approaches"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with a run that was finished, one that was stopped, one killed, one broken."""
    one = Store(root=tmp_path_factory.mktemp("store"))
    run = whole_run()
    repeated = replace(run, parameters={**run.parameters, "repeats": "2"})
    write_run(one.folder(WHOLE), repeated)
    write_products(one.folder(WHOLE), repeated)
    half = run_of(
        attempt(BASELINE, tpm=20_000), stopped="interrupted", title="<script>alert(1)</script>"
    )
    write_run(one.folder("20261121-210000-stopped"), half)
    write_run(one.folder("20261121-220000-killed"), replace(half, stopped="", ended_at=""))
    one.folder("20261121-230000-broken").mkdir()
    (one.folder("20261121-230000-broken") / "run.json").write_text("{}")
    (one.root / "secret.html").write_text("not of a run")
    (one.folder(WHOLE) / "awr-link.html").symlink_to(one.root / "secret.html")
    return one


@pytest.fixture(scope="module")
def page(store: Store) -> Iterator[Served]:
    with served(store=store.root) as one:
        yield one


def test_the_runs_are_told_the_newest_first(page: Served) -> None:
    found = page.ask("/live/lab").json
    assert found["runs_all"] == 4
    assert [(one["id"][9:], one["state"]) for one in found["runs"]] == [
        ("230000-broken", "unreadable"),
        ("220000-killed", "not finished"),
        ("210000-stopped", "stopped"),
        ("200000-oltp-approaches", "finished"),
    ]
    broken, _killed, stopped, whole = found["runs"]
    assert "is not a run of pgflash" in broken["why"]
    assert stopped["why"] == "interrupted"
    assert (stopped["attempts"], stopped["planned"]) == (1, 5)
    assert (whole["attempts"], whole["planned"], whole["emulated"]) == (10, 10, True)
    ratios = {one["name"]: one["ratio"] for one in whole["approaches"]}
    assert ratios["baseline"] is None
    assert ratios["all-on-flash"] == pytest.approx(5.0)
    assert "times" in whole["sentences"][0]
    assert whole["pages"][0] == {"title": "Report", "url": f"/lab/runs/{WHOLE}/report.html"}
    assert {one["title"] for one in whole["files"]} >= {"run.json", "result.json"}
    assert not any("link" in link["url"] for link in whole["pages"])
    for link in (*whole["pages"], *whole["files"]):
        assert page.ask(link["url"]).code == 200


def test_a_run_that_is_being_made_tells_how_far_it_is(store: Store, page: Served) -> None:
    folder = store.folder("20261122-080000-now")
    folder.mkdir()
    with journal.kept(folder, Listener()) as listener:
        (first, *_others) = page.ask("/live/lab").json["runs"]
        assert (first["state"], first["attempts"]) == ("running", 0)
        assert first["progress"]["share"] is None
        listener.plan(1000.0)
        listener.stage("loading", expected_s=60.0)
        listener.note("8 warehouses")
        (first, *_others) = page.ask("/live/lab").json["runs"]
        told = first["progress"]
        assert (told["stage"], told["attempt_notes"]) == ("loading", ["8 warehouses"])
        assert 990 < told["left_s"] <= 1000
        assert 0 <= told["share"] < 0.05
    folder.rmdir()


def test_a_store_without_runs_says_how_to_make_one(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "nowhere"):
        found = Shelf(root).runs()
        assert found.runs == ()
        assert "pgflash lab run" in found.missing["runs"]


def test_what_is_kept_of_runs_is_bounded_and_read_again_only_when_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(root=tmp_path)
    for number in range(RUNS_MAX + 5):
        write_run(store.folder(f"run-{number:03}"), run_of(attempt(BASELINE, tpm=1000.0)))
    shelf = Shelf(tmp_path)
    found = shelf.runs()
    assert (found.runs_all, len(found.runs), len(shelf._known)) == (105, RUNS_MAX, RUNS_MAX)
    assert found.runs[0].id == "run-104"

    def refuse(path: Path) -> None:
        raise AssertionError(path)

    monkeypatch.setattr("pgflash_lab.web.shelf.api.read_run", refuse)
    assert shelf.runs() == found
    monkeypatch.undo()
    grown = run_of(attempt(BASELINE, tpm=1000.0), attempt(FLASH_CACHE, tpm=1500.0))
    write_run(store.folder("run-104"), grown)
    assert shelf.runs().runs[0].attempts == 2


@pytest.mark.parametrize("name", [journal.LOCK_FILE, journal.PROGRESS_FILE, RUN_FILE])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_pipe_or_a_link_in_place_of_a_file_holds_nothing_up(
    tmp_path: Path, name: str, kind: str
) -> None:
    """All runs are listed; that of the pipe is not being made, and not read through a link."""
    one = Store(root=tmp_path / "store")
    run = run_of(attempt(BASELINE, tpm=1000.0))
    write_run(one.folder("good"), run)
    write_run(one.folder("odd"), run)
    write_run(tmp_path / "aim", replace(run, title="secret"))
    (one.folder("odd") / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(one.folder("odd") / name)
    else:
        (one.folder("odd") / name).symlink_to(tmp_path / "aim" / RUN_FILE)
    with locked(one.folder("odd")) if name == journal.PROGRESS_FILE else nullcontext():
        found = {view.id: view for view in Shelf(one.root).runs().runs}
    assert set(found) == {"good", "odd"}
    assert found["odd"].state == ("unreadable" if name == RUN_FILE else found["good"].state)
    assert found["odd"].title != "secret"


@pytest.mark.parametrize("at", ["", "yesterday", "2026-11-22T08:00:00"])
def test_a_progress_without_a_moment_is_none(tmp_path: Path, at: str) -> None:
    one = Store(root=tmp_path)
    write_run(one.folder("odd"), run_of(attempt(BASELINE, tpm=1000.0)))
    text = json.dumps({"began_at": at, "stage": "loading"})
    (one.folder("odd") / journal.PROGRESS_FILE).write_text(text)
    with locked(one.folder("odd")):
        (found,) = Shelf(one.root).runs().runs
    assert (found.state, found.progress) == ("finished", None)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run that is being made."""
    with (folder / journal.LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---- pages of runs


def test_a_page_of_a_run_runs_no_script_and_has_its_own_styles_only(page: Served) -> None:
    answer = page.ask(f"/lab/runs/{WHOLE}/{REPORT_FILE}")
    assert answer.code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = dict(
        one.strip().partition(" ")[::2]
        for one in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["sandbox"] == "allow-same-origin"
    assert "script-src" not in policy
    assert "unsafe" not in answer.headers["content-security-policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy["style-src"] == f"'sha256-{digest}'"
    assert not re.search(r"<[^>]* style=", answer.text), "it would be ignored"
    for name in ("x-content-type-options", "x-frame-options", "referrer-policy"):
        assert name in answer.headers


def test_a_style_that_stands_elsewhere_is_not_let_in() -> None:
    bad = b"<html><head><title>t</title></head><body><style>p{}</style></body></html>"
    assert "style-src 'none'" in page_policy(bad)


def test_only_pages_of_runs_bring_their_own_policy(page: Served) -> None:
    for path in ("/live/lab", f"/lab/runs/{WHOLE}/run.json", f"/lab/runs/{WHOLE}/other.html"):
        assert page.ask(path).headers["content-security-policy"] == CSP


def test_a_file_of_a_run_is_an_attachment(page: Served) -> None:
    answer = page.ask(f"/lab/runs/{WHOLE}/result.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="result.json"'
    assert json.loads(answer.text)["run"] == WHOLE


@pytest.mark.parametrize(
    "path",
    [
        "/lab/runs/nowhere/report.html",
        f"/lab/runs/{WHOLE}/nothing.html",
        f"/lab/runs/{WHOLE}/awr-baseline.html",  # its reports were not kept
        f"/lab/runs/{WHOLE}/awr-link.html",  # leads out of the folder
        f"/lab/runs/{WHOLE}/waits-1.jsonl.gz",
        f"/lab/runs/{WHOLE}/..%2f..%2fsecret.html",
        "/lab/runs/../../secret.html",
        "/lab/runs/..%2f/secret.html",
        "/lab/runs/%2e%2e/report.html",
        "/lab/runs/%2fetc/report.html",
        f"/lab/runs/{WHOLE}/",
        f"/lab/runs/{WHOLE}/report.html%00",
        f"/lab/runs/{'x' * 3000}/report.html",
    ],
)
def test_what_is_no_page_of_a_run_is_not_found(page: Served, path: str) -> None:
    answer = page.ask(path)
    assert answer.code == 404
    assert len(answer.text.splitlines()) == 1


def test_no_name_leads_out_of_the_store(store: Store) -> None:
    shelf = Shelf(store.root)
    for run, name in ((".", "secret.html"), ("..", "report.html"), (WHOLE, "../../secret.html")):
        with pytest.raises(NoSuchRunError):
            shelf.page(run, name)


def test_runs_are_for_those_who_may_look(store: Store) -> None:
    with served(store=store.root, token="0123456789abcdef-right") as locked:
        for path in ("/live/lab", f"/lab/runs/{WHOLE}/report.html"):
            assert locked.ask(path).code == 401
