# SPDX-License-Identifier: PostgreSQL
"""How to make a move: the values allowed in its options.

People may write a plan by hand, so a misspelt word must not be ignored: the move would then be made
in another way than was asked for.
"""

from collections.abc import Callable, Mapping

from pgflash.model.plan import Move, MoveKind, PlanError

_Check = Callable[[str], bool]


def _one_of(*words: str) -> _Check:
    return lambda value: value in words


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).isdecimal()


def _is_some(value: str) -> bool:
    return value.isdecimal() and int(value) > 0


_YES_NO = _one_of("yes", "no")
_RELATION: Mapping[str, _Check] = {
    "method": _one_of("auto", "repack", "alter"),
    "patience_s": _is_number,
    "lock_timeout_ms": _is_some,
}
_OPTIONS: Mapping[MoveKind, Mapping[str, _Check]] = {
    MoveKind.WAL: {"stop_command": bool, "start_command": bool},
    MoveKind.TEMP: {},
    MoveKind.ARCHIVE: {"copy": _YES_NO, "command": bool},
    MoveKind.TABLE: _RELATION,
    MoveKind.INDEX: _RELATION,
    MoveKind.DATABASE: {**_RELATION, "offline": _YES_NO},
    MoveKind.KEEP: {},
}


def check_options(move: Move) -> None:
    """Raise PlanError unless all options of a move are known and have allowed values."""
    known = _OPTIONS[move.kind]
    for name, value in move.options.items():
        if name not in known:
            raise PlanError(
                f'the move "{move.title}" has an option "{name}", which is not known',
                hint=f"There are: {', '.join(sorted(known)) or 'none'}.",
            )
        if not known[name](value):
            raise PlanError(f'the move "{move.title}" cannot have the {name} "{value}"')
    if ("stop_command" in move.options) != ("start_command" in move.options):
        raise PlanError(f'the move "{move.title}" needs both stop_command and start_command')
