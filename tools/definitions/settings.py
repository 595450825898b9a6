# SPDX-License-Identifier: PostgreSQL
"""The settings: the table of the extension, and the reference."""

import re
import tomllib
from pathlib import Path
from typing import Any

from definitions import DEFINITIONS, ROOT
from definitions.text import MARKDOWN_NOTICE, c_string, def_file

TABLE = ROOT / "extension/src/settings.def"
REFERENCE = ROOT / "docs/reference/settings.md"

Setting = dict[str, Any]

#: By type: its names in C and in PostgreSQL.
C_TYPES = {
    "bool": ("bool", "PGC_BOOL"),
    "integer": ("int", "PGC_INT"),
    "real": ("double", "PGC_REAL"),
    "enum": ("int", "PGC_ENUM"),
    "string": ("char *", "PGC_STRING"),
}
UNITS = {
    "8kB": "GUC_UNIT_BLOCKS",
    "kB": "GUC_UNIT_KB",
    "MB": "GUC_UNIT_MB",
    "ms": "GUC_UNIT_MS",
    "s": "GUC_UNIT_S",
    "min": "GUC_UNIT_MIN",
}
TAKES_EFFECT = {
    "start": ("PGC_POSTMASTER", "at a restart"),
    "reload": ("PGC_SIGHUP", "at a reload"),
    "session": ("PGC_SUSET", "at a reload; a superuser can also set it for a session"),
    "user": ("PGC_USERSET", "at a reload; every user can also set it for a session"),
    "never": ("PGC_INTERNAL", "never; it can only be shown"),
}
#: In kB and in ms.
SIZES = {"kB": 1, "8kB": 8, "MB": 1024, "GB": 1024**2}
TIMES = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

SUMMARY = """\
The settings of the extension: SETTING_ENUM(type, constants ...) and
SETTING(type in C, variable, members of Setting in server/settings.c ...)."""


def generated() -> dict[Path, str]:
    """Return the files that come from the settings."""
    found = tomllib.loads((DEFINITIONS / "settings.toml").read_text())
    return {TABLE: _table(found["setting"]), REFERENCE: _reference(found)}


# ---- C


def _table(settings: list[Setting]) -> str:
    lines = [
        f"SETTING_ENUM({', '.join((one['name'].title(), *_constants(one)))})"
        for one in settings
        if one["type"] == "enum"
    ]
    lines += [f"\n{_c_setting(one)}" for one in settings]
    return def_file(TABLE, SUMMARY, ("SETTING_ENUM", "SETTING"), lines)


def _c_setting(setting: Setting) -> str:
    c_type, kind = C_TYPES[setting["type"]]
    flags = [UNITS[setting["unit"]]] if "unit" in setting else []
    flags += ["GUC_SUPERUSER_ONLY"] if setting.get("superuser_reads") else []
    flags += ["GUC_DISALLOW_IN_FILE"] if "shows" in setting else []
    members = {
        "name": c_string(f"pgflash.{setting['name']}"),
        "brief": c_string(setting["brief"]),
        "more": c_string(setting["more"]) if "more" in setting else "",
        "type": kind,
        "context": TAKES_EFFECT[setting["takes_effect"]][0],
        "flags": " | ".join(flags),
        "of_cache": "true" if setting.get("cache") else "",
        **_c_values(setting),
    }
    variable = setting.get("variable", setting["name"])
    said = ",\n".join(f"\t.{name} = {value}" for name, value in members.items() if value)
    return f"SETTING({c_type}, setting_{variable},\n{said})"


def _c_values(setting: Setting) -> dict[str, str]:
    default, kind = setting["default"], setting["type"]
    if kind == "string":
        return {"text": setting.get("shows", c_string(default))}
    if kind == "bool":
        return {"number": str(int(default))}
    if kind == "enum":
        words = zip(setting["values"], _constants(setting), strict=True)
        entries = [f"{{ {c_string(word)}, {name}, false }}" for word, name in words]
        options = ",\n\t\t".join([*entries, "{ NULL, 0, false }"])
        return {
            "number": _constants(setting)[setting["values"].index(default)],
            "options": f"(const struct config_enum_entry[]){{\n\t\t{options}\n\t}}",
        }
    return {
        "number": str(number_in_unit(setting, default)),
        "min": str(number_in_unit(setting, setting["min"])) if "min" in setting else "INT_MIN",
        "max": str(number_in_unit(setting, setting["max"])) if "max" in setting else "INT_MAX",
    }


def _constants(setting: Setting) -> list[str]:
    return [f"{setting['name']}_{word}".upper() for word in setting["values"]]


def number_in_unit(setting: Setting, value: int | str) -> int:
    """Return a value in the setting's unit."""
    found = re.fullmatch(r"(\d+)([a-zA-Z]*)", str(value))
    if found is None:
        raise ValueError(f"{setting['name']}: {value} is no number")
    number, unit = int(found[1]), found[2]
    if not unit:
        return number
    units = SIZES if setting["unit"] in SIZES else TIMES
    whole, rest = divmod(number * units[unit], units[setting["unit"]])
    if rest:
        raise ValueError(f"{setting['name']}: {value} is no multiple of {setting['unit']}")
    return whole


# ---- the reference


def _reference(found: dict[str, Any]) -> str:
    settings = found["setting"]
    names: dict[str, list[str]] = {"{cache}": [], "{default}": [], "{strings}": []}
    for one in (one for one in settings if "shows" not in one):
        of = "strings" if one["type"] == "string" else "cache" if one.get("cache") else "default"
        names[f"{{{of}}}"].append(f"`{one['name']}`")
    before = found["before"].replace("{summary}", _summary(settings))
    for word, found_names in names.items():
        before = before.replace(word, ", ".join(found_names))
    return "\n".join(
        [
            f"# Settings\n\n{MARKDOWN_NOTICE}",
            before,
            *map(_section, settings),
            found["after"],
        ]
    )


def _summary(settings: list[Setting]) -> str:
    rows = [
        f"| [`{one['name']}`](#pgflash{one['name']}) | {_default(one)} | "
        f"{TAKES_EFFECT[one['takes_effect']][1].partition(';')[0]} | {_marked(one['brief'])} |"
        for one in settings
    ]
    return "\n".join(["| setting | default | takes effect | |", "|---|---|---|---|", *rows])


def _section(setting: Setting) -> str:
    facts = [setting["type"], f"default {_default(setting)}"][: 1 if "shows" in setting else 2]
    if "unit" in setting:
        unit = setting["unit"].replace("8kB", "blocks of 8 kB")
        facts[0] += f", in {unit} if it has no unit"
    facts += [_range(setting)] if _range(setting) else []
    facts += [f"takes effect {TAKES_EFFECT[setting['takes_effect']][1]}"]
    said = _marked(f"{setting['brief']} {setting.get('more', '')}".strip())
    return f"## pgflash.{setting['name']}\n\n{' · '.join(facts)}\n\n{said}\n\n{setting['text']}"


def _default(setting: Setting) -> str:
    value = setting["default"]
    if "shows" in setting:
        return ""
    if isinstance(value, bool):
        return "`on`" if value else "`off`"
    return f"`{value}`" if value != "" else "empty"


def _range(setting: Setting) -> str:
    if "range" in setting:
        return str(setting["range"])
    if "values" in setting:
        return "one of " + ", ".join(f"`{word}`" for word in setting["values"])
    if "max" in setting:
        return f"from `{setting['min']}` to `{setting['max']}`"
    return f"at least `{setting['min']}`" if "min" in setting else ""


def _marked(text: str) -> str:
    """Return a sentence with the names of settings and views marked as such."""
    return re.sub(r"\bpgflash[._][a-z_]*[a-z]", r"`\g<0>`", text)
