# SPDX-License-Identifier: PostgreSQL
"""pgflash as a library: everything that the command can do, under the same names.

with open_store(dsn="dbname=app") as store:
    found = report(store, begin="2026-11-22T10:00", end="last")
found.table("top-events").rows
Path("report.html").write_text(render_period(found, "html"))

devices(dsn="dbname=app")[0].media
path = plan_keep(place_table("public.stock", "flash", dsn="dbname=app"))
plan_apply(path, dsn="dbname=app")

with top(dsn="dbname=app", readings=5) as samples:
    print([sample.commits_s for sample in samples if sample is not None])

A command of two words is one name: `pgflash plan apply` is plan_apply().  Only `pgflash serve` and
`pgflash completion` have no function: they are for people.  If a DSN is omitted, the environment's
(PGHOST, ...) is used.  Sizes are in bytes and times in seconds, unless a name ends in another
unit.  Errors that a user can correct are raised as a subclass of PgflashError, with a hint; if
there is no session, as SessionError.  Nothing here prints or asks.
"""

import ast
import functools
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

# A caller needs little of this: __getattr__() imports each of these names when it is asked for.
if TYPE_CHECKING:
    from pgflash.advise.approaches import Situation
    from pgflash.analyze import compare
    from pgflash.api.advising import (
        advise,
        advise_oracle,
        advise_plan,
        file_situation,
        server_situation,
    )
    from pgflash.api.caching import CacheStatus, cache, cache_clear, cache_mode, cache_resize
    from pgflash.api.fleets import FleetError, fleet_status, fleet_switchover, fleet_tag
    from pgflash.api.machines import (
        check,
        devices,
        devices_probe,
        doctor,
        doctor_binary,
        memory,
        memory_remove,
        read_prices,
        read_probe,
        write_probe,
    )
    from pgflash.api.periods import (
        baseline,
        baseline_drop,
        baseline_keep,
        report,
        report_around,
        snapshot,
        snapshots,
    )
    from pgflash.api.placing import (
        place_archive,
        place_database,
        place_index,
        place_table,
        place_temp,
        place_wal,
        plan_apply,
        plan_commands,
        plan_folder,
        plan_is_down,
        plan_keep,
        plan_look,
        plan_read,
        plan_restart_by,
        plan_show,
        plan_undo,
    )
    from pgflash.api.versions import version
    from pgflash.api.watching import top
    from pgflash.collect.about import read_about
    from pgflash.collect.blocking import read_blocking
    from pgflash.collect.cache_view import read_cache
    from pgflash.collect.history import read_history
    from pgflash.collect.live import STATEMENT_TIMEOUT_MS
    from pgflash.collect.memory import CacheMemory
    from pgflash.collect.old_range import OldRange, read_old_range
    from pgflash.collect.patroni import PatroniAccess, PatroniError
    from pgflash.collect.patroni import read_access as read_patroni_access
    from pgflash.collect.probe import is_folder
    from pgflash.collect.segments import name_files
    from pgflash.collect.time_range import read_range
    from pgflash.live.tables import tables as sample_tables
    from pgflash.live.watch import Watch
    from pgflash.model.fleet import Fleet, FleetMember, SettingDifference, Switchover, WarmTag
    from pgflash.model.snapshot import Baseline
    from pgflash.model.versions import Versions
    from pgflash.place import Seen
    from pgflash.progress import Listener
    from pgflash.report.awr import FORMS, Form
    from pgflash.report.awr import render as render_period
    from pgflash.report.awr import render_html as render_period_page
    from pgflash.report.awr.stored import read_period
    from pgflash.store import OpenStore, PgStore, open_store

__all__ = [
    "FORMS",
    "STATEMENT_TIMEOUT_MS",
    "Baseline",
    "CacheMemory",
    "CacheStatus",
    "Fleet",
    "FleetError",
    "FleetMember",
    "Form",
    "Listener",
    "OldRange",
    "OpenStore",
    "PatroniAccess",
    "PatroniError",
    "PgStore",
    "Seen",
    "SettingDifference",
    "Situation",
    "Switchover",
    "Versions",
    "WarmTag",
    "Watch",
    "advise",
    "advise_oracle",
    "advise_plan",
    "baseline",
    "baseline_drop",
    "baseline_keep",
    "cache",
    "cache_clear",
    "cache_mode",
    "cache_resize",
    "check",
    "compare",
    "devices",
    "devices_probe",
    "doctor",
    "doctor_binary",
    "file_situation",
    "fleet_status",
    "fleet_switchover",
    "fleet_tag",
    "is_folder",
    "memory",
    "memory_remove",
    "name_files",
    "open_store",
    "place_archive",
    "place_database",
    "place_index",
    "place_table",
    "place_temp",
    "place_wal",
    "plan_apply",
    "plan_commands",
    "plan_folder",
    "plan_is_down",
    "plan_keep",
    "plan_look",
    "plan_read",
    "plan_restart_by",
    "plan_show",
    "plan_undo",
    "read_about",
    "read_blocking",
    "read_cache",
    "read_history",
    "read_old_range",
    "read_patroni_access",
    "read_period",
    "read_prices",
    "read_probe",
    "read_range",
    "render_period",
    "render_period_page",
    "report",
    "report_around",
    "sample_tables",
    "server_situation",
    "snapshot",
    "snapshots",
    "top",
    "version",
    "write_probe",
]


@functools.cache
def _places() -> dict[str, tuple[str, str]]:
    """Return the module of each name, and its name there, from the imports above."""
    source = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    return {
        one.asname or one.name: (statement.module or "", one.name)
        for block in source.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for one in statement.names
    }


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Import what the library offers under a name (PEP 562)."""
        if name not in _places():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, name_there = _places()[name]
        found = getattr(import_module(module), name_there)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return __all__
