# SPDX-License-Identifier: PostgreSQL
"""Numbers as people read them, wherever they are printed: the one rule for digits and units.

Three significant digits, or all digits before the point: 0.280, 2.50, 13.6, 1,234.  A number other
than zero is never printed as zero, and a missing number is a dash.  A unit follows after a space, a
percent sign too.  Numbers that are added up (seconds and shares of one column) have the decimals of
their column, and bytes the unit of it: a Scale.

model/sizes.py says what a GB is; the live page's script prints by the same rule (format.js).
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgflash.model.awr import Number, Unit
from pgflash.model.sizes import unit_for

#: Takes the place of a number that is not known.
NOTHING = "–"

#: A space at which no line is broken.
NO_BREAK = "\N{NO-BREAK SPACE}"

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:[kMGTP]?B|bytes|µs|ms|s|min|h|d)\b)")

#: Beyond this, a number is written with an exponent.
_PLAIN_MAX = 1e15
_BYTES = {
    Unit.BYTES: "",
    Unit.BYTES_PER_SECOND: "/s",
    Unit.BYTES_PER_TRANSACTION: "/transaction",
}
#: Units whose numbers are printed whole if they are whole.
_WHOLE = (Unit.COUNT, Unit.BYTES, Unit.TEXT)
_LABELS = {
    Unit.TIME: "",
    Unit.SECONDS: "s",
    Unit.MILLISECONDS: "ms",
    Unit.MICROSECONDS: "µs",
    Unit.PER_SECOND: "/s",
    Unit.PER_TRANSACTION: "/transaction",
    Unit.MILLISECONDS_PER_TRANSACTION: "ms/transaction",
}
_MULTIPLES = ((1e9, "billion"), (1e6, "million"))


def figure(value: float | None) -> str:
    """Return a number with three significant digits, or all digits before the point."""
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value)
    if size >= 99.95 or value == 0:
        return _fixed(value, 0)
    return _fixed(value, 1 if size >= 9.995 else 2 if size >= 0.9995 else 3)


def percent(share: float | None) -> str:
    """Return a share in percent: 55 %, 4.9 %, 0.3 %."""
    if share is None or not math.isfinite(share):
        return NOTHING
    return f"{_fixed(100 * share, 0 if abs(share) >= 0.0995 or share == 0 else 1)} %"


def count(value: float | None) -> str:
    """Return a number of things: 14.4 million, 12,345, 7."""
    if value is None:
        return NOTHING
    for size, word in _MULTIPLES:
        if value >= size:
            return f"{value / size:.1f} {word}"
    return f"{value:,.0f}"


def money(value: float, currency: str) -> str:
    """Return a price, with cents if they matter: 99.50 USD, 12,345 USD."""
    return f"{_fixed(value, 2 if abs(value) < 1000 else 0)} {currency}"


def change(share: float) -> str:
    """Return by how much something is more or less than it was: +33 %, -4.9 %."""
    return f"{'+' if share >= 0 else ''}{percent(share)}"


def precisely(value: float) -> str:
    """Return a number that is set beside one that should be equal: with six digits, 1,234.56."""
    return f"{value:,.0f}" if abs(value) >= 100_000 else f"{value:,.6g}"


def things(value: float, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{count(value)} {one if round(value) == 1 else many or one + 's'}"


def size(value: float | None) -> str:
    """Return bytes in the largest suitable unit: 7.45 GB."""
    if value is None:
        return NOTHING
    unit, factor = unit_for(value)
    return f"{value:.0f} bytes" if factor == 1 else f"{figure(value / factor)} {unit}"


def duration(seconds: float | None) -> str:
    """Return how long a call or a period took: 280 µs, 13.6 ms, 45.0 s, 10.0 min, 3.0 h, 8.0 d."""
    if seconds is None:
        return NOTHING
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if abs(seconds) < 1:
        return f"{figure(seconds * 1e3)} ms"
    if abs(seconds) < 120:
        return f"{figure(seconds)} s"
    for unit, length in (("min", 60), ("h", 3600)):
        if abs(seconds) < 120 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds / 86_400:.1f} d"


def between(least_s: float, most_s: float) -> str:
    """Return how long something may take: between 2 s and 25 s, between 40 s and 9 min."""
    most = _whole_time(most_s, math.ceil) or "1 s"
    least = _whole_time(least_s, math.floor)
    return f"between {least} and {most}" if least else f"at most {most}"


def _whole_time(seconds: float, rounded: Callable[[float], int]) -> str:
    """Return a time in whole seconds, minutes or hours; "" if it is zero."""
    units = (("s", 1), ("min", 60), ("h", 3600))
    unit, length = next((one for one in units if seconds < 120 * one[1]), units[-1])
    number = rounded(seconds / length)
    return f"{number} {unit}" if number else ""


def times(value: float) -> str:
    """Return one number over another."""
    return f"{figure(value)} times"


def listed(parts: Sequence[str]) -> str:
    """Join with commas and a last "and"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def unbroken(text: str) -> str:
    """Return a text whose lines are not broken between a number and its unit."""
    return _BEFORE_UNIT.sub(NO_BREAK, text)


def sentence(text: str) -> str:
    """Return a text with the capital letter that begins a sentence."""
    return text[:1].upper() + text[1:]


def print_number(number: Number) -> str:
    """Return a number on its own, with its unit."""
    return Scale.for_unit(number.unit, abs(number.value)).alone(number.value)


def has_scale(unit: Unit) -> bool:
    """Tell whether numbers of a unit share a larger one, to be compared at a glance."""
    return unit in _BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How the numbers of one column, or one number, are printed."""

    unit: Unit
    label: str
    divisor: float = 1.0
    #: None: significant digits.
    decimals: int | None = None

    @classmethod
    def for_unit(cls, unit: Unit, largest: float) -> "Scale":
        """Return the scale for numbers up to a size."""
        if unit in _BYTES:
            name, factor = unit_for(largest, least=10)
            return cls(unit=unit, label=name + _BYTES[unit], divisor=float(factor))
        decimals = None
        if unit is Unit.SECONDS:
            decimals = 1 if largest >= 1000 else 2 if largest >= 10 else 3
        elif unit is Unit.SHARE:
            decimals = 1
        elif unit is Unit.SESSIONS:
            decimals = 2
        return cls(unit=unit, label=_LABELS.get(unit, ""), decimals=decimals)

    def number(self, value: float) -> str:
        """Return the number without its unit."""
        if not math.isfinite(value):
            return NOTHING
        if self.unit is Unit.SHARE:
            return f"{_fixed(100 * value, 1)} %"
        if isinstance(value, int) and self.unit in _WHOLE and self.divisor == 1:
            return whole(value)
        scaled = value / self.divisor
        return figure(scaled) if self.decimals is None else _fixed(scaled, self.decimals)

    def alone(self, value: float) -> str:
        """Return the number with its unit."""
        return f"{self.number(value)} {self.label}".strip()


def _fixed(value: float, decimals: int) -> str:
    """Return the number with this many decimals; only zero is printed as zero."""
    if abs(value) >= _PLAIN_MAX:
        return f"{value:.3e}"
    text = f"{value:,.{decimals}f}"
    if value == 0 or any(digit in text for digit in "123456789"):
        return text
    least = f"{10.0**-decimals:.{decimals}f}"
    return f"<{least}" if value > 0 else f">-{least}"


def whole(value: float) -> str:
    """Return a whole number with all its digits: 1,048,576."""
    return f"{value:,.0f}" if abs(value) < _PLAIN_MAX else f"{float(value):.3e}"
