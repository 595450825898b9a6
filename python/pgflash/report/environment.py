# SPDX-License-Identifier: PostgreSQL
"""The templates of all pages: every text is escaped, and a missing name is an error."""

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from pgflash.model.awr import Source
from pgflash.model.words import count, unbroken
from pgflash.report.printed import MEANS, SIGNS, visible


@cache
def environment(package: str = "pgflash.report") -> Environment:
    """Return the environment for the pages of a package, which may build on ours."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("pgflash.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["sources"] = [(source, SIGNS[source], MEANS[source]) for source in Source]
    made.globals["signs"] = SIGNS
    made.filters["number"] = count
    made.filters["unbroken"] = unbroken
    made.filters["visible"] = visible
    return made
