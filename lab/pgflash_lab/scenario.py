# SPDX-License-Identifier: PostgreSQL
"""A scenario is data: a TOML file beside this module, or one that the user names.

It contains parameters (numbers that may be set), presets (parameters for an occasion), settings
(PostgreSQL's, the same for every approach) and approaches.  It is checked when it is read: an
unknown key, a wrong type or a number out of range is an error that names the key, never a surprise
ten minutes later.
"""

import contextlib
import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from pgflash_lab.model.run import Approach, is_name
from pgflash_lab.parameters import Parameters, ScenarioError
from pgflash_lab.workload import Workload
from pgflash_lab.workloads import WORKLOADS

#: Characters of a name: a run's id is its time and the scenario's name.
NAME_MAX = 80
_NAME = re.compile(rf"[a-z][a-z0-9-]{{0,{NAME_MAX - 1}}}")

#: The devices of a run.
ROLES = ("array", "flash")
CACHE_FILES_MAX = 2

#: Settings that the lab sets by approach; a scenario must not name them.
RESERVED_SETTINGS = ("pgflash.", "shared_preload_libraries", "shared_buffers", "data_directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario with its preset and changes applied: ready to run."""

    name: str
    title: str
    about: str
    preset: str
    presets: tuple[str, ...]
    #: The workload's name.
    load: str
    #: Number of the paper that it follows, or empty.
    paper: str = ""
    parameters: Parameters
    settings: Mapping[str, str] = field(default_factory=dict)
    approaches: tuple[Approach, ...]

    @property
    def workload(self) -> Workload[Any]:
        """Return the workload."""
        return WORKLOADS[self.load]

    def parameters_of(self, approach: Approach) -> Parameters:
        """Return the parameters with the approach's changes, in the workload's own class."""
        return _changed(self.parameters, approach.changes)

    def order(self) -> list[tuple[Approach, int]]:
        """Return the approaches with their repeats: A B C, then C B A, and so on.

        So a machine that slowly changes favours no approach.
        """
        rounds: list[tuple[Approach, int]] = []
        for repeat in range(1, self.parameters.repeats + 1):
            forth = repeat % 2 == 1
            names = self.approaches if forth else tuple(reversed(self.approaches))
            rounds.extend((approach, repeat) for approach in names)
        return rounds


def scenario_names() -> list[str]:
    """Return the names of pgflash's own scenarios."""
    folder = resources.files("pgflash_lab") / "scenarios"
    return sorted(one.name.removesuffix(".toml") for one in folder.iterdir() if _is_toml(one.name))


def load_scenario(
    name: str, *, preset: str = "", changes: Mapping[str, str] | None = None
) -> Scenario:
    """Return a scenario by name, or by the path of a TOML file."""
    return parse_scenario(_text_of(name), source=name, preset=preset, changes=changes or {})


def parse_scenario(
    text: str, *, source: str, preset: str = "", changes: Mapping[str, str] | None = None
) -> Scenario:
    """Return the scenario that a TOML text describes; SOURCE names it in errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f'scenario "{source}" is not valid TOML: {error}') from error
    known = {"name", "title", "about", "workload", "paper"}
    known |= {"parameters", "presets", "settings", "approaches"}
    _refuse_unknown(data, known, source)
    for key in ("name", "title", "parameters", "approaches"):
        if key not in data:
            raise ScenarioError(f'scenario "{source}" has no "{key}"')
    name = str(data["name"])
    if not is_name(name) or len(name) > NAME_MAX:
        raise ScenarioError(
            f'scenario "{source}": "{name}" cannot be its name, by which files are named',
            hint=f"A name is of at most {NAME_MAX} letters, digits, dots, dashes and underscores.",
        )
    presets = _table(data, "presets", source)
    if preset and preset not in presets:
        names = ", ".join(presets) or "none"
        raise ScenarioError(
            f'scenario "{source}" has no preset "{preset}"', hint=f"Its presets: {names}."
        )
    values = {**_table(data, "parameters", source)}
    if preset:
        values.update(_table(presets, preset, source))
    load = str(data.get("workload", "oltp"))
    if load not in WORKLOADS:
        raise ScenarioError(
            f'scenario "{source}": there is no workload "{load}"',
            hint=f"Known: {', '.join(WORKLOADS)}.",
        )
    parameters = _parameters(WORKLOADS[load].parameters, values, changes or {}, source)
    approaches = _approaches(data["approaches"], source)
    for approach in approaches:
        _check_changes(parameters, approach, source)
    return Scenario(
        name=name,
        title=str(data["title"]),
        about=str(data.get("about", "")).strip(),
        preset=preset,
        presets=tuple(presets),
        load=load,
        paper=str(data.get("paper", "")),
        parameters=parameters,
        settings=_settings(_table(data, "settings", source), source),
        approaches=_chosen(approaches, parameters.approaches),
    )


def parse_changes(assignments: Sequence[str]) -> dict[str, str]:
    """Return the parameters of --set key=value."""
    changes = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(
                f'"{assignment}" is not of the form key=value',
                hint="For example: --set warehouses=4 --set clients=8.",
            )
        changes[key.strip()] = value.strip()
    return changes


def _text_of(name: str) -> str:
    """Return the text of one of our scenarios, or of a file."""
    if name.endswith(".toml"):
        try:
            return Path(name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise ScenarioError(f'could not read scenario "{name}": {reason}') from error
    if name not in scenario_names():
        raise ScenarioError(
            f'there is no scenario "{name}"',
            hint=f"Known: {', '.join(scenario_names())}; or name a file that ends in .toml.",
        )
    return (resources.files("pgflash_lab") / "scenarios" / f"{name}.toml").read_text()


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def _refuse_unknown(data: Mapping[str, Any], known: set[str], where: str) -> None:
    """Refuse a key that nothing would read."""
    for key in data:
        if key not in known:
            raise ScenarioError(
                f'{where}: there is no parameter "{key}"',
                hint=f"Known: {', '.join(sorted(known))}.",
            )


def _table(data: Mapping[str, Any], key: str, source: str) -> dict[str, Any]:
    """Return a table of the file, or an empty one."""
    found = data.get(key, {})
    if not isinstance(found, dict):
        raise ScenarioError(f'scenario "{source}": "{key}" must be a table')
    return found


def _parameters(
    kind: type[Parameters], values: dict[str, Any], changes: Mapping[str, str], source: str
) -> Parameters:
    """Check names and types; values from the command line are text."""
    known = {one.name for one in dataclasses.fields(kind)}
    _refuse_unknown(values, known, source)
    _refuse_unknown(changes, known, source)
    with _named(source):
        _refuse_unknown_choices(kind, values)
        return _changed(msgspec.convert(values, kind), changes)


def _changed(parameters: Parameters, changes: Mapping[str, str]) -> Parameters:
    """Return parameters of the same class with some replaced by texts."""
    _refuse_unknown_choices(type(parameters), changes)
    texts = msgspec.to_builtins(parameters) | dict(changes)
    return msgspec.convert(texts, type(parameters), strict=False)


def _refuse_unknown_choices(kind: type[Parameters], values: Mapping[str, Any]) -> None:
    """Refuse a word that is none of those which a parameter can be, and name them."""
    for one in dataclasses.fields(kind):
        if one.name in values and isinstance(one.type, type) and issubclass(one.type, StrEnum):
            choices = list(one.type)
            if values[one.name] not in choices:
                raise ScenarioError(
                    f'{one.name}: there is no "{values[one.name]}"',
                    hint=f"Known: {', '.join(choices)}.",
                )


def _check_changes(parameters: Parameters, approach: Approach, source: str) -> None:
    """Refuse changes that an approach must not make, or not in this form."""
    where = f"{source}, approach {approach.name}"
    fixed = {"approaches", "repeats", "seed", "time_limit_s", "repeat_polluted_until_s"}
    known = {one.name for one in dataclasses.fields(parameters)} - fixed
    _refuse_unknown(approach.changes, known, where)
    with _named(where):
        _changed(parameters, approach.changes)


@contextlib.contextmanager
def _named(source: str) -> Iterator[None]:
    """Add, to an error about parameters, where they are."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError(f'scenario "{source}": {error.message}', hint=error.hint) from error
    except msgspec.ValidationError as error:
        cause = error.__cause__
        if isinstance(cause, ScenarioError):
            raise ScenarioError(f'scenario "{source}": {cause.message}', hint=cause.hint) from error
        raise ScenarioError(f'scenario "{source}": {_plain(str(error))}') from error


def _plain(message: str) -> str:
    """Turn msgspec's path ($.clients) into a parameter's name."""
    return re.sub(r" - at `\$\.?([^`]*)`", r" for \1", message)


def _settings(table: Mapping[str, Any], source: str) -> dict[str, str]:
    """Return PostgreSQL's settings as texts."""
    settings = {}
    for name, value in table.items():
        if name.startswith(RESERVED_SETTINGS):
            raise ScenarioError(f'scenario "{source}": the lab itself decides "{name}"')
        if isinstance(value, bool):
            settings[name] = "on" if value else "off"
        elif isinstance(value, str | int | float):
            settings[name] = str(value)
        else:
            raise ScenarioError(f'scenario "{source}": setting "{name}" must be a plain value')
    return settings


def _approaches(tables: object, source: str) -> tuple[Approach, ...]:
    """Check the approaches: names, devices, no name twice."""
    try:
        approaches = msgspec.convert(_with_texts(tables), tuple[Approach, ...])
    except msgspec.ValidationError as error:
        raise ScenarioError(f'scenario "{source}", approaches: {_plain(str(error))}') from error
    if not approaches:
        raise ScenarioError(f'scenario "{source}" has no approaches')
    names = [approach.name for approach in approaches]
    for approach in approaches:
        if _NAME.fullmatch(approach.name) is None or names.count(approach.name) > 1:
            raise ScenarioError(
                f'scenario "{source}": "{approach.name}" cannot name an approach',
                hint=f"A name is of at most {NAME_MAX} small letters, digits and dashes, and is "
                "used only once.",
            )
        with _named(f"{source}, approach {approach.name}"):
            _check_approach(approach)
            if approach.base and approach.base not in names:
                raise ScenarioError(f'it is compared with "{approach.base}", which is none')
    return approaches


def _with_texts(tables: object) -> object:
    """Write an approach's changes as texts, as they are stored."""
    if not isinstance(tables, list):
        return tables
    return [
        {**table, "changes": {key: str(value) for key, value in table["changes"].items()}}
        if isinstance(table, dict) and isinstance(table.get("changes"), dict)
        else table
        for table in tables
    ]


def _check_approach(approach: Approach) -> None:
    """Refuse an approach with an unknown device or too many cache files."""
    for what in ("data", "wal", "temp", "archive"):
        role = getattr(approach, what)
        if role not in ROLES and (role or what in ("data", "wal")):
            raise ScenarioError(
                f'{what} is on "{role}"', hint=f"It can be on {' or '.join(ROLES)}."
            )
    if not 1 <= approach.cache_files <= CACHE_FILES_MAX:
        raise ScenarioError(f"cache_files must lie between 1 and {CACHE_FILES_MAX}")
    if approach.keep and not approach.cache:
        raise ScenarioError("keep needs a flash cache")
    if approach.objects and approach.data == "flash":
        raise ScenarioError("objects are on flash already")


def _chosen(approaches: tuple[Approach, ...], names: str) -> tuple[Approach, ...]:
    """Return the requested approaches, in the scenario's order."""
    if not names:
        return approaches
    wanted = [name.strip() for name in names.split(",")]
    known = [approach.name for approach in approaches]
    for name in wanted:
        if name not in known:
            raise ScenarioError(
                f'there is no approach "{name}"', hint=f"Known: {', '.join(known)}."
            )
    return tuple(approach for approach in approaches if approach.name in wanted)
