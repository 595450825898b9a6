# SPDX-License-Identifier: PostgreSQL
"""Where the workload's SQL and pgbench scripts are."""

from importlib import resources


def read_sql(name: str) -> str:
    """Return the text of sql/NAME."""
    return resources.files(__package__).joinpath("sql", name).read_text(encoding="utf-8")


def read_terminal(name: str) -> str:
    """Return the text of the pgbench script terminal/NAME."""
    return resources.files(__package__).joinpath("terminal", name).read_text(encoding="utf-8")
