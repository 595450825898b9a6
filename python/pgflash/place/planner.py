# SPDX-License-Identifier: PostgreSQL
"""Turn a request into a plan: one move, or the many that it consists of.

A table becomes the table, then each of its indexes; a partitioned table becomes its partitions,
then itself.  A database becomes every table and index in it, one by one.  It is expanded
only when the plan is looked at or applied, since tables come and go.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pgflash.model.plan import Move, MoveKind, Plan, Record, make_plan
from pgflash.place.cluster import Cluster
from pgflash.place.errors import PlaceError
from pgflash.place.options import check_options
from pgflash.place.relations import (
    INDEX_KINDS,
    TABLE_KINDS,
    Relation,
    find_relation,
    indexes_of,
    relations_in,
    tree_of,
)


def moves_for(cluster: Cluster, asked: Move) -> tuple[Move, ...]:
    """Return the moves that a requested move consists of.

    One option is used only here: "indexes" of a table ("no": they stay).
    """
    options = dict(asked.options)
    with_indexes = options.pop("indexes", "yes") == "yes"
    asked = replace(asked, options=options)
    check_options(asked)
    if asked.kind is MoveKind.TABLE:
        return _table_moves(cluster, asked, with_indexes=with_indexes)
    if asked.kind is MoveKind.INDEX:
        index = find_relation(cluster, asked.name, kinds=INDEX_KINDS, database=asked.database)
        return tuple(_move(asked, one) for one in tree_of(cluster, index))
    if _is_online(asked):
        _parts(cluster, asked)  # there is something to move
    return (asked,)


def expanded(plan: Plan, cluster: Cluster) -> Plan:
    """Return a plan in which each database that moves while in use is replaced by its objects.

    The author of a plan need not know what is in a database; objects added since are included.
    """
    moves, records = list[Move](), list[Record]()
    for move, record in zip(plan.moves, plan.records, strict=True):
        parts = _parts(cluster, move) if _is_online(move) else [(move, record)]
        moves += [part for part, _record in parts]
        records += [its for _part, its in parts]
    return replace(plan, moves=tuple(moves), records=tuple(records))


def _is_online(move: Move) -> bool:
    return move.kind is MoveKind.DATABASE and move.options.get("offline", "no") != "yes"


def _table_moves(cluster: Cluster, asked: Move, *, with_indexes: bool) -> tuple[Move, ...]:
    table = find_relation(cluster, asked.name, kinds=TABLE_KINDS, database=asked.database)
    moves = list[Move]()
    for one in tree_of(cluster, table):
        moves.append(_move(asked, one))
        if with_indexes:
            moves += [_move(asked, index) for index in indexes_of(cluster, one)]
    return tuple(moves)


def _parts(cluster: Cluster, asked: Move) -> list[tuple[Move, Record]]:
    """Return the moves of a database's objects, each with the place where it is now."""
    check_options(asked)
    found = relations_in(cluster, asked.name)
    if not found:
        raise PlaceError(f'there is nothing to move in database "{asked.name}"')
    options = {name: value for name, value in asked.options.items() if name != "offline"}
    asked = replace(asked, options=options)
    return [(_move(asked, one), Record(was=one.tablespace)) for one in found]


def _move(asked: Move, relation: Relation) -> Move:
    """Return the move of one relation."""
    return Move(
        kind=MoveKind.INDEX if relation.is_index else MoveKind.TABLE,
        to=asked.to,
        name=relation.title,
        database=relation.database,
        bytes=relation.bytes,
        why=asked.why,
        options=asked.options,
    )


def plan_for(cluster: Cluster, moves: Sequence[Move], *, id: str, now: datetime) -> Plan:
    """Return a plan of moves for this cluster."""
    local = cluster.is_local and cluster.setting_or_none("data_directory")
    return make_plan(
        moves,
        id=id,
        system_identifier=cluster.system_identifier,
        made_at=now,
        data_directory=local or "",
    )
