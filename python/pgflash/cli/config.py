# SPDX-License-Identifier: PostgreSQL
"""The user's file of defaults: ~/.config/pgflash.toml, or the one that PGFLASH_CONFIG names.

[connection]        # as psql's options and libpq's keywords are called
host = "db1.example.org"
dbname = "app"

[output]
format = "json"     # table, json or csv, where a command has it
pager = false

An option overrides the environment, and the environment overrides the file.  For the server this
follows by itself: the file's values replace PGHOST and others where those are not set.

A file that others may write is refused, and so is an unknown name: a default that silently has no
effect is worse than none.  Passwords belong into ~/.pgpass.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import pq

from pgflash.errors import PgflashError
from pgflash.trusted import ChangeableError, config_folder, read_file

VARIABLE = "PGFLASH_CONFIG"
FILE = "pgflash.toml"
FORMATS = ("table", "json", "csv")

_HINT = f"Correct the file, or do without it: {VARIABLE}= pgflash ..."


class ConfigError(PgflashError):
    """The file of defaults cannot be used."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = _HINT) -> None:
        """Take a message that names the file."""
        super().__init__(message, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The content of the file."""

    #: By the name of the variable that it replaces: {"PGHOST": "db1.example.org"}.
    connection: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    pager: bool = True


def path_of_config() -> Path | None:
    """Return the file's path, whether there is one or not; None if there is to be none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    try:
        return config_folder() / FILE
    except KeyError:  # this user has no home
        return None


def read_config() -> Config:
    """Return what the file says; nothing if there is no file and none was named."""
    path = path_of_config()
    if path is None:
        return Config()
    try:
        content = read_file(path)
    except FileNotFoundError:
        if VARIABLE not in os.environ:
            return Config()
        raise ConfigError(f'there is no file "{path}", which {VARIABLE} names') from None
    except ChangeableError as error:
        raise ConfigError(
            f'"{path}" is not read: {error.message}',
            hint="Let only its owner write to it, and to the folders that it is in: chmod go-w.",
        ) from error
    except OSError as error:
        raise ConfigError(f'could not read "{path}": {error.strerror}') from error
    try:
        return _config(tomllib.loads(content.decode()))
    except (UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f'"{path}" is wrong: {error}') from error


def _config(found: dict[str, Any]) -> Config:
    """Check names and values; ValueError says which one is wrong."""
    _check_names(found, ("connection", "output"), "a part of it")
    for name, part in found.items():
        if not isinstance(part, dict):
            raise ValueError(f"{name} is no part: write [{name}] on a line of its own")
    output = found.get("output", {})
    _check_names(output, ("format", "pager"), "a setting of [output]")
    form, pager = output.get("format"), output.get("pager", True)
    if form is not None and form not in FORMATS:
        raise ValueError(f"format is {form!r}: it is one of {', '.join(FORMATS)}")
    if not isinstance(pager, bool):
        raise ValueError(f"pager is {pager!r}: it is true or false")
    return Config(connection=_connection(found.get("connection", {})), format=form, pager=pager)


def _connection(found: dict[str, Any]) -> dict[str, str]:
    options = {one.keyword.decode(): one for one in pq.Conninfo.get_defaults()}
    secret = {name for name, one in options.items() if b"*" in (one.dispchar or b"")}
    variables = {name: one.envvar.decode() for name, one in options.items() if one.envvar}
    if wrong := secret & found.keys():
        raise ValueError(f"{wrong.pop()} is not read from here: ~/.pgpass is the place for it")
    _check_names(found, variables, "a setting of [connection]")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError(f"{name} is {value!r}: write it in quotes")
    return {variables[name]: str(value) for name, value in found.items()}


def _check_names(found: Mapping[str, object], known: Iterable[str], what: str) -> None:
    names = list(known)
    for name in found:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise ValueError(f'"{name}" is not {what}; {meant}')
