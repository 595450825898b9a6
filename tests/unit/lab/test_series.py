# SPDX-License-Identifier: PostgreSQL
"""Resuming a run, and all scenarios as one thing to resume."""

import dataclasses
from pathlib import Path

import pytest

from pgflash.errors import PgflashError
from pgflash.progress import Listener
from pgflash_lab import series
from pgflash_lab.model.run import Run
from pgflash_lab.order import Order, ResumeError, require_same
from pgflash_lab.postgres import PgInstall
from pgflash_lab.scenario import load_scenario, scenario_names
from pgflash_lab.series import load_again, load_all, run_series
from pgflash_lab.store import Store, write_run
from support.runs import BASELINE, attempt, run_of


class Notes(Listener):
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.planned: list[float] = []
        self.stages: list[str] = []
        self.noted: list[str] = []

    def plan(self, expected_s: float) -> None:
        self.planned.append(expected_s)

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        self.stages.append(title)

    def note(self, text: str) -> None:
        self.noted.append(text)


def order(root: Path, name: str, **changes: str) -> Order:
    install = PgInstall(
        bindir=root / "bin",
        libdir=root / "lib",
        pkglibdir=root / "lib",
        sharedir=root / "share",
        includedir_server=root / "include",
        version="18.6",
        major=18,
    )
    scenario = load_scenario(name, preset="smoke", changes=changes)
    return Order(scenario=scenario, install=install, store=Store(root=root))


@pytest.fixture
def orders(tmp_path: Path) -> list[Order]:
    """Return orders of two scenarios whose approaches need no extension."""
    return [
        order(tmp_path, "oltp-approaches", approaches="baseline"),
        order(tmp_path, "flash-cache", approaches="baseline"),
    ]


def play(monkeypatch: pytest.MonkeyPatch, *, failing: tuple[str, ...] = ()) -> list[str]:
    """Store a finished run for each order instead of measuring; return what was ordered."""
    ordered: list[str] = []

    def run(one: Order, listener: Listener) -> Run:
        ordered.append(f"{one.id}{' again' if one.resumed else ''}")
        listener.plan(10.0)
        if one.scenario.name in failing:
            raise PgflashError("it does not work")
        made = run_of(attempt(BASELINE, tpm=100), id=one.id)
        write_run(one.store.folder(one.id), made)
        return made

    monkeypatch.setattr(series, "run_scenario", run)
    return ordered


def test_all_scenarios_are_ordered_in_their_quick_preset() -> None:
    chosen = load_all("", {})
    papers = [name for name in scenario_names() if load_scenario(name).paper]
    assert [one.name for one in chosen] == papers
    assert len(papers) == 5
    assert all(one.preset == "quick" for one in chosen if "quick" in one.presets)
    assert {one.preset for one in load_all("smoke", {})} == {"smoke"}


def test_a_series_runs_each_scenario_and_plans_for_those_to_come(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, orders: list[Order]
) -> None:
    ordered = play(monkeypatch)
    notes = Notes()
    ended = run_series(orders, notes, store=Store(root=tmp_path))
    assert [one.scenario for one in ended] == ["oltp-approaches", "flash-cache"]
    assert [one.run.id if one.run else "" for one in ended] == ordered
    first, last = notes.planned
    assert first > last == 10.0


def test_a_series_goes_on_with_what_has_no_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, orders: list[Order]
) -> None:
    store = Store(root=tmp_path)
    play(monkeypatch)
    done = [one.run for one in run_series(orders, Notes(), store=store)]
    assert done[1] is not None
    # As if the second had been killed after its first attempt.
    write_run(store.folder(done[1].id), dataclasses.replace(done[1], ended_at=""))
    ordered = play(monkeypatch)
    notes = Notes()
    again = run_series(orders, notes, store=store, resume="latest")
    assert ordered == [f"{done[1].id} again"]
    assert [one.run for one in again] == done
    assert any("has been run" in one for one in notes.noted)


def test_a_scenario_that_fails_keeps_no_other_from_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, orders: list[Order]
) -> None:
    ordered = play(monkeypatch, failing=("oltp-approaches",))
    ended = run_series(orders, Notes(), store=Store(root=tmp_path))
    assert len(ordered) == 2
    assert [one.failed for one in ended] == ["it does not work", ""]


def test_a_series_that_is_ordered_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, orders: list[Order]
) -> None:
    play(monkeypatch)
    run_series(orders, Notes(), store=Store(root=tmp_path))
    other = [orders[0], order(tmp_path, "flash-cache", approaches="baseline", clients="9")]
    with pytest.raises(ResumeError, match="ordered otherwise"):
        run_series(other, Notes(), store=Store(root=tmp_path), resume="latest")
    with pytest.raises(ResumeError, match="no series"):
        run_series(orders, Notes(), store=Store(root=tmp_path), resume="20200101-000000")


def test_a_series_knows_how_it_was_ordered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, orders: list[Order]
) -> None:
    play(monkeypatch)
    run_series(orders, Notes(), store=Store(root=tmp_path))
    again = load_again(Store(root=tmp_path), "latest")
    assert again == [one.scenario for one in orders]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"settings": {"shared_buffers": "1GB"}}, "settings: shared_buffers was '192MB', is '1GB'"),
        ({"postgres_version": "17.1"}, "postgres version"),
        ({"approaches": ()}, "approaches"),
        ({"parameters": {"warehouses": "8"}}, "clients was '16', is 'not there'"),
    ],
)
def test_a_run_goes_on_only_as_it_was_ordered(changes: dict[str, object], what: str) -> None:
    require_same(run_of(), run_of())
    with pytest.raises(ResumeError) as caught:
        require_same(run_of(), run_of(**changes))
    assert what in caught.value.message
