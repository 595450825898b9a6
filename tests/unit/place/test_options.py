# SPDX-License-Identifier: PostgreSQL
"""Options of a move in a hand-written plan: an unknown one is refused, never ignored."""

import pytest

from pgflash.model.plan import Move, MoveKind, PlanError
from pgflash.place.options import check_options


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (MoveKind.TABLE, {"method": "repack", "patience_s": "0.5", "lock_timeout_ms": "300"}),
        (MoveKind.INDEX, {"patience_s": "600"}),
        (MoveKind.DATABASE, {"offline": "yes"}),
        (MoveKind.ARCHIVE, {"copy": "no", "command": "cp %p /a/%f"}),
        (MoveKind.WAL, {"stop_command": "a", "start_command": "b"}),
        (MoveKind.TEMP, {}),
    ],
)
def test_what_a_move_may_say_is_taken(kind: MoveKind, options: dict[str, str]) -> None:
    check_options(Move(kind=kind, to="flash", options=options))


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (MoveKind.TABLE, {"methd": "repack"}, 'option "methd", which is not known'),
        (MoveKind.TABLE, {"method": "pg_repack"}, 'cannot have the method "pg_repack"'),
        (MoveKind.TABLE, {"patience_s": "ten"}, 'cannot have the patience_s "ten"'),
        (MoveKind.TABLE, {"patience_s": "-1"}, 'cannot have the patience_s "-1"'),
        (MoveKind.INDEX, {"lock_timeout_ms": "0"}, 'cannot have the lock_timeout_ms "0"'),
        (MoveKind.DATABASE, {"offline": "true"}, 'cannot have the offline "true"'),
        (MoveKind.WAL, {"stop_command": "a"}, "needs both stop_command and start_command"),
        (MoveKind.WAL, {"method": "alter"}, 'option "method", which is not known'),
    ],
)
def test_what_is_misspelt_is_refused(kind: MoveKind, options: dict[str, str], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        check_options(Move(kind=kind, to="flash", options=options))
