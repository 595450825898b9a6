# SPDX-License-Identifier: PostgreSQL
"""What core counts: the columns of pgflash_cache that are declared as counters."""

from pathlib import Path

from definitions import NOTICE, ROOT
from definitions.views import views

_HEAD = f"""\
/*
 * counters.def
 *		What the cache counts: FC_COUNTER(name, what it means).
 *
 * {NOTICE}
 * Files include it with their own FC_COUNTER.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
"""


def generated() -> dict[Path, str]:
    """Return core's list."""
    lines = [
        f'FC_COUNTER({column.name}, "{column.meaning}")\n'
        for column in views()["pgflash_cache"].columns
        if column.counter
    ]
    return {ROOT / "core/include/fcache/counters.def": _HEAD + "".join(lines)}
