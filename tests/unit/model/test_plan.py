# SPDX-License-Identifier: PostgreSQL
"""A plan as a file: written whole or not at all, and read back unchanged."""

import os
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgflash.model.plan import (
    FORMAT,
    Move,
    MoveKind,
    MoveState,
    Plan,
    PlanError,
    Record,
    make_plan,
    plan_from_json,
    plan_to_json,
)
from pgflash.place.journal import read_plan, write_plan


def a_plan() -> Plan:
    return make_plan(
        [
            Move(kind=MoveKind.WAL, to="/flash/wal", why="Commits wait."),
            Move(
                kind=MoveKind.TABLE,
                name="public.stock",
                database="app",
                to="flash",
                bytes=6 << 30,
                options={"method": "alter"},
            ),
        ],
        id="20261122-101500",
        system_identifier="7301",
        made_at=datetime(2026, 11, 22, 10, 15, tzinfo=UTC),
    )


def test_a_new_plan_has_done_nothing() -> None:
    assert [record.state for record in a_plan().records] == [MoveState.PLANNED, MoveState.PLANNED]


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record(state=MoveState.DOING, was="/data/pg_wal", step="copy", notes={"a": "b"})
    plan = a_plan().with_record(0, record)
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan


def test_only_the_owner_may_read_a_plan(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", a_plan())
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == 0o600


def test_a_title_says_what_goes_where() -> None:
    assert [move.title for move in a_plan().moves] == [
        "wal to /flash/wal",
        "table public.stock to flash",
    ]


def test_a_write_that_fails_leaves_the_plan_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, a_plan())

    def full(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PlanError, match="No space left"):
        write_plan(path, replace(a_plan(), id="another"))
    assert read_plan(path) == a_plan()
    assert [one.name for one in tmp_path.iterdir()] == ["plan.json"]


def test_what_is_no_plan_is_said(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="is not a plan"):
        plan_from_json(b'{"id": "x"', name="x")
    with pytest.raises(PlanError, match="could not read"):
        read_plan(tmp_path / "missing")


def test_another_format_is_refused() -> None:
    with pytest.raises(PlanError, match=f"format {FORMAT + 1}"):
        plan_from_json(plan_to_json(replace(a_plan(), format=FORMAT + 1)), name="x")


def test_a_plan_that_lost_a_record_is_refused() -> None:
    with pytest.raises(PlanError, match="2 moves and 1 records"):
        plan_from_json(plan_to_json(replace(a_plan(), records=(Record(),))), name="x")
