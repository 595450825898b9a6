# SPDX-License-Identifier: PostgreSQL
"""A scenario is data: a TOML file beside this module, or one that the user names.

It holds parameters (numbers that may be set), presets (parameters for an occasion),
settings (PostgreSQL's, the same for every approach) and approaches.  What it holds is
checked when it is read: an unknown key, a wrong type or a number out of range is an
error that names the key, never a surprise ten minutes later.
"""

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from pgflash.errors import UsageError
from pgflash.model.run import Approach

_SIZE = re.compile(r"(\d+) ?(kB|MB|GB|TB)")
_UNITS = {"kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_NAME = re.compile(r"[a-z][a-z0-9-]*")

#: Settings that the lab decides, by approach; a scenario may not name them.
RESERVED_SETTINGS = ("pgflash.", "shared_preload_libraries", "shared_buffers", "data_directory")


class ScenarioError(UsageError):
    """A scenario's file, or a change to it on the command line, is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What may be set with --set; sizes are written as PostgreSQL writes them."""

    warehouses: int
    clients: int
    warmup_s: int
    measure_s: int
    repeats: int
    shared_buffers: str
    cache_size: str
    #: Device profiles, when devices are emulated.
    array: str
    flash: str
    #: Read every block once before the warm-up, so that the cache holds the working set.
    prefill: bool = True
    seed: int = 1
    #: Seconds between the snapshots of a measurement's own report; 0: at its ends only.
    snapshot_s: int = 0
    #: Load pg_stat_statements, so that the reports rank statements; it costs processor time.
    statements: bool = False
    #: An attempt during which others took more of the machine than this is polluted.
    foreign_cpu_max: float = 0.1
    #: Polluted attempts are repeated only while the run is younger; 0: never repeat.
    repeat_polluted_until_s: int = 0
    #: A repeat after the first is not begun if it would end later than this; 0: no limit.
    time_limit_s: int = 0
    #: Names of approaches, separated by commas; empty: all.
    approaches: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name in ("warehouses", "clients", "measure_s", "repeats"):
            _require(getattr(self, name) >= 1, name, "must be at least 1")
        for name in ("warmup_s", "seed", "snapshot_s", "repeat_polluted_until_s", "time_limit_s"):
            _require(getattr(self, name) >= 0, name, "must not be negative")
        _require(0 < self.foreign_cpu_max <= 1, "foreign_cpu_max", "must lie between 0 and 1")
        for name in ("shared_buffers", "cache_size"):
            size_bytes(getattr(self, name), name=name)

    def as_text(self) -> dict[str, str]:
        """Return the parameters for people, in their order."""
        return {one.name: str(getattr(self, one.name)) for one in dataclasses.fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario with its preset and changes applied: ready to run."""

    name: str
    title: str
    about: str
    preset: str
    presets: tuple[str, ...]
    parameters: Parameters
    settings: Mapping[str, str] = field(default_factory=dict)
    approaches: tuple[Approach, ...]

    def order(self) -> list[tuple[Approach, int]]:
        """Return approaches with their repeat: A B C, then C B A, and so on.

        A machine that slowly changes thus favours no approach.
        """
        rounds: list[tuple[Approach, int]] = []
        for repeat in range(1, self.parameters.repeats + 1):
            forth = repeat % 2 == 1
            names = self.approaches if forth else tuple(reversed(self.approaches))
            rounds.extend((approach, repeat) for approach in names)
        return rounds


def scenario_names() -> list[str]:
    """Return the names of the scenarios that pgflash brings."""
    folder = resources.files("pgflash.lab") / "scenarios"
    return sorted(one.name.removesuffix(".toml") for one in folder.iterdir() if _is_toml(one.name))


def load_scenario(
    name: str, *, preset: str = "", changes: Mapping[str, str] | None = None
) -> Scenario:
    """Return a scenario by name, or by the path of a TOML file."""
    return parse_scenario(_text_of(name), source=name, preset=preset, changes=changes or {})


def parse_scenario(
    text: str, *, source: str, preset: str = "", changes: Mapping[str, str] | None = None
) -> Scenario:
    """Return the scenario that a TOML text describes; source names it in errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f'scenario "{source}" is not valid TOML: {error}') from error
    known = {"name", "title", "about", "parameters", "presets", "settings", "approaches"}
    _refuse_unknown(data, known, source)
    for key in ("name", "title", "parameters", "approaches"):
        if key not in data:
            raise ScenarioError(f'scenario "{source}" has no "{key}"')
    presets = _table(data, "presets", source)
    if preset and preset not in presets:
        names = ", ".join(presets) or "none"
        raise ScenarioError(
            f'scenario "{source}" has no preset "{preset}"', hint=f"Its presets: {names}."
        )
    values = {**_table(data, "parameters", source)}
    if preset:
        values.update(_table(presets, preset, source))
    parameters = _parameters(values, changes or {}, source)
    return Scenario(
        name=str(data["name"]),
        title=str(data["title"]),
        about=str(data.get("about", "")).strip(),
        preset=preset,
        presets=tuple(presets),
        parameters=parameters,
        settings=_settings(_table(data, "settings", source), source),
        approaches=_chosen(_approaches(data["approaches"], source), parameters.approaches),
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


def size_bytes(text: str, *, name: str) -> int:
    """Return the bytes of a size like 640MB."""
    found = _SIZE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise ScenarioError(
            f'{name}: "{text}" is not a size', hint="Write a number and kB, MB, GB or TB: 640MB."
        )
    return int(found[1]) * _UNITS[found[2]]


def _text_of(name: str) -> str:
    """Return the text of a scenario of ours, or of a file."""
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
    return (resources.files("pgflash.lab") / "scenarios" / f"{name}.toml").read_text()


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def _require(condition: bool, name: str, what: str) -> None:
    if not condition:
        raise ScenarioError(f"{name} {what}")


def _refuse_unknown(data: Mapping[str, Any], known: set[str], where: str) -> None:
    """Refuse a key that nothing would read."""
    for key in data:
        if key not in known:
            raise ScenarioError(
                f'"{where}" has no parameter "{key}"', hint=f"Known: {', '.join(sorted(known))}."
            )


def _table(data: Mapping[str, Any], key: str, source: str) -> dict[str, Any]:
    """Return a table of the file, or an empty one."""
    found = data.get(key, {})
    if not isinstance(found, dict):
        raise ScenarioError(f'scenario "{source}": "{key}" must be a table')
    return found


def _parameters(values: dict[str, Any], changes: Mapping[str, str], source: str) -> Parameters:
    """Check names and types; what comes from the command line is text."""
    known = {one.name for one in dataclasses.fields(Parameters)}
    _refuse_unknown(values, known, source)
    _refuse_unknown(changes, known, source)
    try:
        checked = msgspec.convert(values, Parameters)
        texts = msgspec.to_builtins(checked) | dict(changes)
        return msgspec.convert(texts, Parameters, strict=False)
    except ScenarioError as error:
        raise ScenarioError(f'scenario "{source}": {error.message}', hint=error.hint) from error
    except msgspec.ValidationError as error:
        cause = error.__cause__
        if isinstance(cause, ScenarioError):
            raise ScenarioError(f'scenario "{source}": {cause.message}', hint=cause.hint) from error
        raise ScenarioError(f'scenario "{source}": {_plain(str(error))}') from error


def _plain(message: str) -> str:
    """Turn msgspec's place ($.clients) into a parameter's name."""
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
        approaches = msgspec.convert(tables, tuple[Approach, ...])
    except msgspec.ValidationError as error:
        raise ScenarioError(f'scenario "{source}", approaches: {_plain(str(error))}') from error
    if not approaches:
        raise ScenarioError(f'scenario "{source}" has no approaches')
    names = [approach.name for approach in approaches]
    for approach in approaches:
        if _NAME.fullmatch(approach.name) is None or names.count(approach.name) > 1:
            raise ScenarioError(
                f'scenario "{source}": "{approach.name}" cannot name an approach',
                hint="A name is of small letters, digits and dashes, and stands only once.",
            )
        for what, role in (("data", approach.data), ("wal", approach.wal)):
            if role not in ("array", "flash"):
                raise ScenarioError(
                    f'scenario "{source}", approach "{approach.name}": {what} is on "{role}"',
                    hint="It can be on array or flash.",
                )
    return approaches


def _chosen(approaches: tuple[Approach, ...], names: str) -> tuple[Approach, ...]:
    """Return the approaches that were asked for, in the scenario's order."""
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
