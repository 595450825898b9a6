# SPDX-License-Identifier: PostgreSQL
"""An advice as a plan: the moves that pgflash plan apply makes."""

from collections.abc import Iterator
from datetime import datetime

from pgflash.advise.work import NoAdviceError
from pgflash.errors import UsageError
from pgflash.model.advice import Advice, ApproachAdvice, HotObject
from pgflash.model.plan import Move, MoveKind, Plan, make_plan

_WAL = frozenset({"wal-on-flash", "wal-and-cache", "hot-objects", "all-on-flash"})
_OBJECTS = frozenset({"hot-objects", "all-on-flash"})
_CACHE = frozenset({"flash-cache", "wal-and-cache"})


def plan_of(
    advice: Advice,
    *,
    approach: str,
    tablespace: str,
    folder: str,
    system_identifier: str,
    made_at: datetime,
) -> Plan:
    """Return the moves of an approach; "" is the one that is recommended.

    TABLESPACE is for objects and temporary files, FOLDER (on flash) for the WAL.
    """
    name = approach or advice.recommended
    if not name:
        raise NoAdviceError(
            f"there is nothing to plan: {advice.sentence}",
            hint="Name an approach with --approach to get a plan all the same.",
        )
    way = next((one for one in advice.approaches if one.name == name), None)
    if way is None:
        raise UsageError(
            f'there is no approach "{name}" here',
            hint=f"Approaches are: {', '.join(one.name for one in advice.approaches)}.",
        )
    moves = list(_moves(advice, way, tablespace=tablespace, folder=folder))
    if not moves:
        raise NoAdviceError(
            f"{way.title} is a setting and not a move",
            hint="To switch the flash cache on, set pgflash.cache_file and restart the server.",
        )
    return make_plan(
        moves,
        id=f"{made_at:%Y%m%d-%H%M%S}",
        system_identifier=system_identifier,
        made_at=made_at,
    )


def _moves(advice: Advice, way: ApproachAdvice, *, tablespace: str, folder: str) -> Iterator[Move]:
    if way.name in _OBJECTS or way.name == "temp-on-flash":
        yield from _data_moves(advice, way, _need_tablespace(way, tablespace))
    if way.name in _CACHE:
        yield from (_keep(one) for one in advice.objects if one.verdict == "keep")
    # A WAL that is on flash already is not offered to be put there.
    wal = way.name in _WAL and any(one.name == "wal-on-flash" for one in advice.approaches)
    if wal or way.name == "archive-on-flash":
        yield from _folder_moves(way, folder)


def _folder_moves(way: ApproachAdvice, folder: str) -> Iterator[Move]:
    if not folder:
        raise UsageError(
            f"{way.title} needs a folder on flash",
            hint="Name one with --flash, such as /mnt/flash.",
        )
    if way.name == "archive-on-flash":
        yield Move(kind=MoveKind.ARCHIVE, to=f"{folder.rstrip('/')}/archive", why=way.reason)
    if way.name in _WAL:
        # This comes last: it restarts the server.
        yield Move(kind=MoveKind.WAL, to=f"{folder.rstrip('/')}/pg_wal", why=way.reason)


def _need_tablespace(way: ApproachAdvice, tablespace: str) -> str:
    if not tablespace:
        raise UsageError(
            f"{way.title} needs a tablespace on flash",
            hint="CREATE TABLESPACE flash LOCATION '...'; then name it with --tablespace.",
        )
    return tablespace


def _data_moves(advice: Advice, way: ApproachAdvice, tablespace: str) -> Iterator[Move]:
    if way.name == "hot-objects":
        yield from (_move(one, tablespace) for one in advice.objects if one.verdict == "move")
        return
    yield Move(kind=MoveKind.TEMP, to=tablespace, why=way.reason)
    if way.name == "all-on-flash":
        for database in sorted({one.database for one in advice.objects}):
            yield Move(kind=MoveKind.DATABASE, name=database, to=tablespace, why=way.reason)


def _keep(one: HotObject) -> Move:
    return Move(
        kind=MoveKind.KEEP,
        name=_qualified(one.name),
        database=one.database,
        to="keep",
        bytes=round(one.bytes or 0),
        why=one.reason,
    )


def _move(one: HotObject, tablespace: str) -> Move:
    return Move(
        kind=MoveKind.INDEX if one.kind == "index" else MoveKind.TABLE,
        name=_qualified(one.name),
        database=one.database,
        to=tablespace,
        bytes=round(one.bytes or 0),
        why=one.reason,
    )


def _qualified(name: str) -> str:
    return name if "." in name else f"public.{name}"
