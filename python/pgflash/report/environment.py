# SPDX-License-Identifier: PostgreSQL
"""The templates of all pages: every text is escaped, and a missing name is an error."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def environment() -> Environment:
    """Return the environment for all pages."""
    return Environment(
        loader=PackageLoader("pgflash.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
