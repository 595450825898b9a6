# SPDX-License-Identifier: PostgreSQL
"""Where a cluster keeps its parts: data, WAL, tablespaces, archive, temporary and cache files.

The server says where its folders are.  Where a link in the data directory leads (pg_wal), only the
file system shows, to users who may look.  A place that cannot be found has no path, but a reason.

WAL is archived by a command of the user's, not to a folder in a setting.  A command that copies %p
to a path ending in %f shows its folder; a tool with its own configuration does not.
"""

import csv
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pgflash.session import Connection, said

_SETTINGS = """
select name, reset_val from pg_catalog.pg_settings
 where name in ('data_directory', 'archive_mode', 'archive_command', 'archive_library',
                'basic_archive.archive_directory', 'temp_tablespaces', 'pgflash.cache_file')
"""
_TABLESPACES = """
select s.spcname, pg_catalog.pg_tablespace_location(s.oid),
       s.oid = (select dattablespace from pg_catalog.pg_database
                 where datname = pg_catalog.current_database())
  from pg_catalog.pg_tablespace s
 where s.spcname <> 'pg_global'
 order by s.spcname
"""

_DEFAULT = "pg_default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a part of the cluster is."""

    part: str
    #: The absolute path that the server gives; "" if it is not known.
    path: str = ""
    #: Why it is not known.
    why: str = ""


def server_places(connection: Connection) -> tuple[Place, ...]:
    """Return where the parts of a server on this machine are."""
    with said("ask where the server keeps its files"):
        settings = {str(name): str(value or "") for name, value in connection.execute(_SETTINGS)}
        tablespaces = [
            (str(name), str(place or ""), bool(default))
            for name, place, default in connection.execute(_TABLESPACES)
        ]
    return tuple(_places(settings, tablespaces))


def _places(
    settings: Mapping[str, str], tablespaces: list[tuple[str, str, bool]]
) -> Iterator[Place]:
    data = settings.get("data_directory", "")
    if not data:
        why = "this role may not see data_directory: GRANT pg_monitor TO role_name"
        yield Place(part="data", why=why)
        yield Place(part="wal", why=why)
    else:
        yield Place(part="data", path=data)
        yield _wal(data)
    folders = {
        name: _folder(data, place) if place else Place(part="", path=data)
        for name, place, _default in tablespaces
    }
    for name, place in folders.items():
        if name != _DEFAULT:
            yield Place(part=f"tablespace {name}", path=place.path, why=place.why)
    yield from archive_places(settings)
    yield from _temp(settings, folders, next(n for n, _place, default in tablespaces if default))
    yield from cache_places(settings.get("pgflash.cache_file", ""))


def _folder(data: str, place: str) -> Place:
    """Return a tablespace's folder; an in-place tablespace is relative to the data directory."""
    path = str(PurePosixPath(data) / place) if data else place
    if not path.startswith("/"):
        return Place(part="", why="this role may not see data_directory")
    return Place(part="", path=path)


def _wal(data: str) -> Place:
    try:
        return Place(part="wal", path=str(Path(data, "pg_wal").resolve(strict=True)))
    except (OSError, RuntimeError) as error:
        words = getattr(error, "strerror", None) or "its links are broken"
        return Place(
            part="wal",
            why=f"could not find out where pg_wal leads ({words.lower()}): run this as the "
            "server's user",
        )


def _temp(settings: Mapping[str, str], folders: Mapping[str, Place], home: str) -> Iterator[Place]:
    """Yield where temporary files go: the tablespaces named, or the database's default one."""
    names = [name for name in split_list(settings.get("temp_tablespaces", "")) if name in folders]
    for name in names or [home]:
        place = folders[name]
        yield Place(part="temp", path=place.path, why="" if place.path else place.why or "unknown")


def cache_places(setting: str) -> Iterator[Place]:
    """Yield where the cache files are; for a missing file, look at its folder."""
    for path in split_list(setting):
        yield Place(part="cache", path=path if _there(path) else str(Path(path).parent))


def _there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # we may not look at it
        return False


def archive_places(settings: Mapping[str, str]) -> Iterator[Place]:
    """Yield where WAL is archived to, if it is."""
    if settings.get("archive_mode", "off") == "off":
        return
    library = settings.get("archive_library", "")
    command = settings.get("archive_command", "")
    if library == "basic_archive":
        folder = settings.get("basic_archive.archive_directory", "")
        yield _archive(folder, "basic_archive.archive_directory is not set")
    elif library:
        yield Place(part="archive", why=f"archive_library is {library}, which does not publish it")
    elif command in ("", "(disabled)"):
        yield Place(part="archive", why="archive_command is not set or may not be seen")
    else:
        yield from _of_command(command)


def _archive(folder: str, why: str) -> Place:
    return Place(part="archive", path=folder) if folder else Place(part="archive", why=why)


def _of_command(command: str) -> Iterator[Place]:
    """Yield the folders of the paths that end in the name of a WAL file."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    folders = [word.removesuffix("%f").rstrip("/") or "/" for word in words if _is_target(word)]
    for folder in dict.fromkeys(folders):
        yield Place(part="archive", path=folder)
    if not folders:
        tool = PurePosixPath(words[0]).name if words else command
        yield Place(
            part="archive", why=f'archive_command calls "{tool}", which knows where it copies to'
        )


def _is_target(word: str) -> bool:
    """Tell whether a word is a path on this machine that ends in the file's name."""
    return word.startswith("/") and word.endswith("/%f") and "%" not in word[:-3]


def split_list(setting: str) -> tuple[str, ...]:
    """Return the items of a list setting: separated by commas, in double quotes if need be."""
    rows = list(csv.reader([setting], skipinitialspace=True))
    return tuple(word.strip() for row in rows for word in row if word.strip())
