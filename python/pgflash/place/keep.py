# SPDX-License-Identifier: PostgreSQL
"""Give a relation a policy of the flash cache, as a step of a plan: keep, none or default."""

from psycopg import sql

from pgflash.model.plan import Move
from pgflash.place.cluster import Cluster
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Steps
from pgflash.place.mover import Look, Room
from pgflash.place.relations import INDEX_KINDS, TABLE_KINDS, find_relation
from pgflash.place.speed import Estimate
from pgflash.session import find_extension

_POLICIES = ("keep", "none", "default")


class KeepMover:
    """Sets one relation's policy."""

    def __init__(self, cluster: Cluster, move: Move) -> None:
        """Prepare to set the policy of this relation."""
        if move.to not in _POLICIES:
            raise PlaceError(f'there is no cache policy "{move.to}"; there are keep, none, default')
        self._cluster = cluster
        self._move = move
        self._relation = find_relation(
            cluster, move.name, kinds=TABLE_KINDS | INDEX_KINDS, database=move.database
        )
        found = find_extension(cluster.session(self._relation.database))
        if found is None:
            raise PlaceError(
                f'database "{self._relation.database}" does not have the extension pgflash',
                hint="CREATE EXTENSION pgflash;",
            )
        self._schema = found.schema

    def here(self) -> str:
        """Return the policy that is set."""
        found = self._cluster.value(
            sql.SQL(
                "select policy::text from {}.pgflash_cache_policy where relation = %s::oid "
                "and set_on = relation"
            ).format(sql.Identifier(self._schema)),
            self._relation.oid,
            database=self._relation.database,
        )
        return "default" if found is None else str(found)

    def target(self) -> str:
        """Return the requested policy."""
        return self._move.to

    def refuse(self) -> None:
        """Refuse nothing: our creator has already checked."""

    def room(self, place: str) -> Room:
        """Say that a policy takes no room."""
        return Room()

    def look(self) -> Look:
        """Return the effects of it."""
        here = self.here()
        return Look(
            here=here,
            there=self._move.to,
            bytes=0,
            lock="Nobody waits.",
            estimate=Estimate(most_s=1.0),
            is_there=here == self._move.to,
        )

    def go(self, place: str, steps: Steps) -> None:
        """Set the policy."""
        steps.at("set the policy")
        self._cluster.rows(
            sql.SQL("select {}.pgflash_set_cache_policy({}::regclass, {}::text)").format(
                sql.Identifier(self._schema), sql.Literal(self._relation.oid), sql.Literal(place)
            ),
            database=self._relation.database,
            doing=f"set the cache policy of {self._relation.title}",
        )
