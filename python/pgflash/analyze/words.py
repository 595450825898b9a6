# SPDX-License-Identifier: PostgreSQL
"""Numbers in sentences: as many digits as a reader remembers, and the unit.

Sizes are in model/sizes.py.
"""

from collections.abc import Sequence

from pgflash.model.sizes import digits

_MULTIPLES = ((1e9, "billion"), (1e6, "million"))


def percent(share: float) -> str:
    """Return a share in percent: 55 %, 4.9 %, 0.3 %."""
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.1f} %"


def count(value: float) -> str:
    """Return a number of things: 14.4 million, 12,345, 7."""
    for size, word in _MULTIPLES:
        if value >= size:
            return f"{value / size:.1f} {word}"
    return f"{value:,.0f}"


def things(value: float, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{count(value)} {one if round(value) == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Return the duration of a call or of a period."""
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if abs(seconds) < 1:
        return f"{digits(seconds * 1e3)} ms"
    if abs(seconds) < 7200:
        return f"{digits(seconds)} s"
    return f"{seconds / 3600:.1f} hours"


def times(value: float) -> str:
    """Return one number over another."""
    return f"{digits(value)} times"


def listed(parts: Sequence[str]) -> str:
    """Join with commas and a last "and"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def sentence(text: str) -> str:
    """Return a text with the capital letter that begins a sentence."""
    return text[:1].upper() + text[1:]
