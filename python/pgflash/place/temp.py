# SPDX-License-Identifier: PostgreSQL
"""Send temporary files to another tablespace: temp_tablespaces, by ALTER SYSTEM and a reload.

Existing files stay where they are until their query ends; temporary tables until their session
ends.  Nobody waits.  A role that may not CREATE in the tablespace stays on the old one, and the
server does not report it: so we say it here.
"""

from collections.abc import Iterator
from pathlib import Path

from pgflash.model.plan import Move
from pgflash.place.cluster import Cluster
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Steps
from pgflash.place.mover import Look, Room
from pgflash.place.names import quote_name
from pgflash.place.settings import change_setting, set_place, setting_place
from pgflash.place.speed import Estimate
from pgflash.place.tablespaces import find_tablespace, make_tablespace, refuse_target

_NAME = "temp_tablespaces"

#: The right to set it, to see its line in the file, and to have the file read.
_MAY = """
select has_parameter_privilege('temp_tablespaces', 'ALTER SYSTEM')
   and has_table_privilege('pg_file_settings', 'SELECT')
   and has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')
   and has_function_privilege('pg_reload_conf()', 'EXECUTE')
"""
_GRANTS = (
    "GRANT ALTER SYSTEM ON PARAMETER temp_tablespaces TO {role}; "
    "GRANT SELECT ON pg_file_settings TO {role}; "
    "GRANT EXECUTE ON FUNCTION pg_show_all_file_settings(), pg_reload_conf() TO {role};"
)

_WITHOUT_RIGHTS = """
select rolname from pg_roles
 where rolcanlogin and not has_tablespace_privilege(oid, %s, 'CREATE') order by rolname
"""


class TempMover:
    """Moves temporary files."""

    def __init__(self, cluster: Cluster, move: Move) -> None:
        """Prepare to move the temporary files of this cluster."""
        self._cluster = cluster
        self._move = move
        if not cluster.value(_MAY):
            role = quote_name(cluster.role)
            raise PlaceError(
                f'role "{cluster.role}" may not change {_NAME}',
                hint=f"Use a superuser, or: {_GRANTS.format(role=role)}",
            )

    def here(self) -> str:
        """Return the value of temp_tablespaces in postgresql.auto.conf."""
        return setting_place(self._cluster, _NAME)

    def target(self) -> str:
        """Return the value for it there."""
        return set_place(quote_name(make_tablespace(self._cluster, self._move.to)))

    def refuse(self) -> None:
        """Refuse a move that must not be made."""
        refuse_target(self._cluster, self._move.to, lasting=False)

    def room(self, place: str) -> Room:
        """Return nothing: how much queries will spill is unknown."""
        return Room()

    def look(self) -> Look:
        """Return the effects of the move, or refuse it."""
        self.refuse()
        cluster = self._cluster
        found = find_tablespace(cluster, self._move.to)
        there = found or self._move.to
        now = cluster.setting(_NAME)
        return Look(
            here=now or "the default tablespace of each database",
            there=there,
            bytes=0,
            lock="Nobody waits: new queries use it at once, running queries finish where they are.",
            estimate=Estimate(most_s=1.0),
            warnings=tuple(self._warnings(found)),
            is_there=found is not None and self.here() == set_place(quote_name(found)),
        )

    def _warnings(self, tablespace: str | None) -> Iterator[str]:
        cluster = self._cluster
        if tablespace is None:
            yield "Only superusers may use a new tablespace: GRANT CREATE ON TABLESPACE ... TO ..."
            return
        without = [name for (name,) in cluster.rows(_WITHOUT_RIGHTS, tablespace)]
        if without:
            some = ", ".join(without[:5]) + (" ..." if len(without) > 5 else "")
            yield (
                f"These roles may not use it and continue where they were: {some}. "
                f"GRANT CREATE ON TABLESPACE {quote_name(tablespace)} TO ...;"
            )
        stronger = cluster.value(
            "select count(*) from pg_db_role_setting where exists (select from unnest(setconfig) "
            "one where one like 'temp_tablespaces=%%')"
        )
        if stronger:
            yield (
                f"{_NAME} is also set for {stronger} databases or roles, which takes precedence."
            )
        data = cluster.setting_or_none("data_directory")
        if cluster.is_local and data:
            device = cluster.device_of(cluster.tablespace_folder(tablespace))
            if device and device == cluster.device_of(Path(data)):
                yield "The tablespace is on the device of the data directory."

    def go(self, place: str, steps: Steps) -> None:
        """Set it, or undo it."""
        steps.at("change the setting")
        change_setting(self._cluster, _NAME, place, is_list=True)
