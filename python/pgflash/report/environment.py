# SPDX-License-Identifier: PostgreSQL
"""The templates of all pages: every text is escaped, a name that is missing is an error."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def environment() -> Environment:
    """Return the environment that all pages are made in."""
    return Environment(
        loader=PackageLoader("pgflash.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
