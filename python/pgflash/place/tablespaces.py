# SPDX-License-Identifier: PostgreSQL
"""Find the tablespace for a move: one given by name, or one made in a given folder.

A folder inside the data directory is refused (PostgreSQL only warns of it). So is making a
tablespace while standbys follow: they make it, too, when they replay that WAL, and stop for good if
the folder is missing.
"""

from pathlib import Path

from psycopg import sql

from pgflash.place import files
from pgflash.place.cluster import Cluster
from pgflash.place.errors import PlaceError
from pgflash.place.names import quote_name
from pgflash.place.owner import make_folder, refuse_folder

#: Limit on the name of a tablespace that we make; the server would truncate at 63 bytes.
_NAME_BYTES_MAX = 50


def is_folder(to: str) -> bool:
    """Say whether a move's goal is a folder rather than a tablespace."""
    return to.startswith("/")


def find_tablespace(cluster: Cluster, to: str) -> str | None:
    """Return the tablespace that is meant, or None if it would have to be made."""
    known = cluster.tablespaces()
    if not is_folder(to):
        if to not in known:
            raise PlaceError(
                f'there is no tablespace "{to}"',
                hint=f"There are {', '.join(sorted(known))}; or name a folder, such as "
                "/flash/data, and it is made.",
            )
        if to == "pg_global":
            raise PlaceError("nothing can be moved to pg_global")
        return to
    for name, folder in known.items():
        if folder and Path(folder).resolve() == Path(to).resolve():
            return name
    return None


def new_name(cluster: Cluster, folder: str) -> str:
    """Return the name for a tablespace in this folder."""
    base = Path(folder).name.lower() or "flash"
    base = "".join(letter if letter.isalnum() else "_" for letter in base)
    base = f"on_{base}" if base.startswith("pg_") or base[0].isdigit() else base
    base = base.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")
    known, name, number = cluster.tablespaces(), base, 1
    while name in known:
        number += 1
        name = f"{base}_{number}"
    return name


def _refuse_new(cluster: Cluster, folder: str) -> None:
    """Refuse a folder in which no tablespace can or should be made."""
    if not cluster.is_superuser:
        raise PlaceError(
            f'role "{cluster.role}" may not make a tablespace',
            hint="Let a superuser make it: CREATE TABLESPACE flash LOCATION '...'; GRANT CREATE ON "
            f"TABLESPACE flash TO {cluster.role};",
        )
    if not cluster.is_local:
        raise PlaceError(
            "the server runs on another machine, where no folder can be made",
            hint="Make the tablespace there, and name it with --on.",
        )
    path, process = Path(folder), cluster.process()
    if process.owner.do(files.is_inside, path, process.data):
        raise PlaceError(
            f"{folder} is inside the data directory", hint="Name a folder on another device."
        )
    if not process.owner.do(files.is_empty, path):
        raise PlaceError(
            f"{folder} is not empty",
            hint="Name a folder that is empty or does not exist yet; below a mount point, not "
            "the mount point itself.",
        )
    refuse_folder(path, process.owner)
    standbys = cluster.value(
        "select count(*) from (select 1 from pg_stat_replication r where state <> 'backup' and not "
        "exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = "
        "'logical') union all select 1 from pg_replication_slots where slot_type = 'physical') one"
    )
    if standbys:
        raise PlaceError(
            "this server has standbys, which stop if the folder of a new tablespace is not there",
            hint=f"Make {folder} on each of them, CREATE TABLESPACE here, and name it with --on.",
        )


def make_tablespace(cluster: Cluster, to: str) -> str:
    """Return the tablespace that is meant, making it if need be."""
    found = find_tablespace(cluster, to)
    if found is not None:
        return found
    _refuse_new(cluster, to)
    make_folder(Path(to), cluster.process().owner, was_asked_for=True)
    name = new_name(cluster, to)
    cluster.run(
        sql.SQL("create tablespace {} location {}").format(sql.Identifier(name), sql.Literal(to)),
        doing=f"make a tablespace in {to}",
    )
    return name


def refuse_target(
    cluster: Cluster, to: str, *, home_of: str | None = None, lasting: bool = True
) -> None:
    """Refuse a tablespace or a folder that cannot be used, or that a stop would empty (LASTING).

    Relations may always go to the default tablespace of their database, HOME_OF.
    """
    found = find_tablespace(cluster, to)
    if found is None:
        _refuse_new(cluster, to)
    else:
        _refuse_without_rights(cluster, found, home_of)
    if lasting:
        cluster.refuse_loss(to if found is None else cluster.tablespaces()[found])


def _refuse_without_rights(cluster: Cluster, tablespace: str, home_of: str | None) -> None:
    if not cluster.value(
        "select has_tablespace_privilege(%s, 'CREATE') or exists (select from pg_database d join "
        "pg_tablespace t on t.oid = dattablespace where datname = %s and spcname = %s)",
        *(tablespace, home_of, tablespace),
    ):
        raise PlaceError(
            f'role "{cluster.role}" may not use tablespace "{tablespace}"',
            hint=f"GRANT CREATE ON TABLESPACE {quote_name(tablespace)} TO "
            f"{quote_name(cluster.role)};",
        )
