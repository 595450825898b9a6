# SPDX-License-Identifier: PostgreSQL
"""Change a setting by ALTER SYSTEM so that it can be reverted exactly.

A value from postgresql.auto.conf is distinguished from one set elsewhere: an undo either writes the
former line again or removes ours.  As the place of a move it is written "set:VALUE" or "reset".  A
change counts once a new session sees it; if something stronger (the command line) overrides it, the
change is reverted and refused.
"""

import time

from psycopg import sql

from pgflash.place.cluster import Cluster, said_no
from pgflash.place.errors import PlaceError
from pgflash.place.names import split_names

RESET = "reset"
_SET = "set:"
_SEEN_WAIT_S = 30.0
_POLL_S = 0.05


def setting_place(cluster: Cluster, name: str) -> str:
    """Return a setting as it is in postgresql.auto.conf."""
    rows = cluster.rows(
        "select setting from pg_file_settings where name = %s and sourcefile like "
        "'%%/postgresql.auto.conf' order by seqno desc limit 1",
        name,
    )
    return RESET if not rows else f"{_SET}{rows[0][0]}"


def set_place(value: str) -> str:
    """Return the place for a value set by us."""
    return f"{_SET}{value}"


def change_setting(cluster: Cluster, name: str, place: str, *, is_list: bool = False) -> None:
    """Set or reset a setting, and wait until a new session sees it."""
    before = setting_place(cluster, name)
    if before == place:
        _reload(cluster)
        return
    _alter(cluster, name, place, is_list=is_list)
    _reload(cluster)
    if place != RESET and not _is_seen(cluster, name, place.removeprefix(_SET), is_list=is_list):
        _alter(cluster, name, before, is_list=is_list)
        _reload(cluster)
        raise PlaceError(
            f"{name} was set, but a new session does not see it",
            hint="It is set more strongly elsewhere: on the server's command line, or by ALTER "
            "ROLE or ALTER DATABASE. It was reverted.",
        )


def _alter(cluster: Cluster, name: str, place: str, *, is_list: bool) -> None:
    statement: sql.Composed
    if place == RESET:
        statement = sql.SQL("alter system reset {}").format(_setting_name(name))
    else:
        value = place.removeprefix(_SET)
        words = split_names(value) if is_list else [value]
        statement = sql.SQL("alter system set {} = {}").format(
            _setting_name(name),
            sql.SQL(", ").join(sql.Literal(word) for word in words or [""]),
        )
    cluster.run(statement, doing=f"change {name}")


def _setting_name(name: str) -> sql.Composed:
    """Return a setting's name; an extension's setting has a dot, which no identifier contains."""
    return sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))


def _reload(cluster: Cluster) -> None:
    with said_no("reload the settings"):
        cluster.session().execute("select pg_reload_conf()")


def _is_seen(cluster: Cluster, name: str, value: str, *, is_list: bool) -> bool:
    """Wait until a new session sees the value: the postmaster takes a moment to read it."""
    meaning = split_names if is_list else str
    deadline = time.monotonic() + _SEEN_WAIT_S
    while True:
        with cluster.fresh() as session:
            row = session.execute("select current_setting(%s)", (name,)).fetchone()
        if row is not None and meaning(row[0]) == meaning(value):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
