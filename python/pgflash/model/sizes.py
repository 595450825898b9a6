# SPDX-License-Identifier: PostgreSQL
"""Parse sizes: kB, MB, GB and TB are powers of 1024, as in PostgreSQL.

No other module defines what a GB is.  Vendors of drives use the same names for powers of 1000; the
size on a label, and a price per GB of it, are converted here as well.
"""

import re

KB, MB, GB, TB, PB = 2**10, 2**20, 2**30, 2**40, 2**50

#: The smallest first.
_UNITS = {"B": 1, "kB": KB, "MB": MB, "GB": GB, "TB": TB, "PB": PB}
#: A vendor's units; powers of 1024 are written as kiB, MiB and so on.
_VENDOR_UNITS = {
    **{unit: int(1000**power) for power, unit in enumerate(_UNITS)},
    **{f"{unit[0]}iB": factor for unit, factor in _UNITS.items() if unit != "B"},
}

#: The GB by which vendors sell a drive.
VENDOR_GB = _VENDOR_UNITS["GB"]

_SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]{1,3})\s*")


def read_size(text: str) -> int:
    """Return the bytes of a text such as "640MB" or "1.6 TB"; ValueError if it is not a size."""
    return _read(text, _UNITS)


def read_vendor_size(text: str) -> int:
    """Return the bytes of a drive labelled "800GB", for example; ValueError if it is not a size."""
    return _read(text, _VENDOR_UNITS)


def unit_for(value: float, *, least: float = 1.0) -> tuple[str, int]:
    """Return the largest unit in which the value is at least LEAST, and its bytes; else "bytes"."""
    fitting = [one for one in _UNITS.items() if one[1] > 1 and abs(value) >= least * one[1]]
    return fitting[-1] if fitting else ("bytes", 1)


def _read(text: str, units: dict[str, int]) -> int:
    """Return the bytes; the case of a unit does not matter."""
    found = _SIZE.fullmatch(text)
    folded = {unit.casefold(): factor for unit, factor in units.items()}
    factor = folded.get(found[2].casefold()) if found else None
    if found is None or factor is None:
        raise ValueError(f'"{text}" is not a size')
    return round(float(found[1]) * factor)
