# SPDX-License-Identifier: PostgreSQL
"""What core counts: the columns of pgflash_cache that are declared as counters, in C and Python."""

from pathlib import Path

from definitions import NOTICE, ROOT
from definitions.text import c_string, python_head
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
    """Return core's list, and Python's."""
    counters = [column for column in views()["pgflash_cache"].columns if column.counter]
    in_c = (f"FC_COUNTER({one.name}, {c_string(one.meaning)})\n" for one in counters)
    in_python = (f'    "{one.name}": "{one.oracle}",\n' for one in counters)
    details = (f'    "{one.name}",\n' for one in counters if one.detail)
    return {
        ROOT / "core/include/fcache/counters.def": _HEAD + "".join(in_c),
        ROOT / "python/pgflash/model/counters.py": (
            python_head("The counters of the flash cache.")
            + "#: Columns of pgflash_cache, with Oracle's name of the statistic if it has one.\n"
            + f"COUNTERS = {{\n{''.join(in_python)}}}\n\n"
            + "#: Those that reports leave out: details, and what their other tables show.\n"
            + f"DETAILS = (\n{''.join(details)})\n"
        ),
    }
