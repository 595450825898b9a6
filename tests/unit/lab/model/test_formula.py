# SPDX-License-Identifier: PostgreSQL
"""Formulas of papers: their results, missing values, and what is refused."""

from collections.abc import Iterator, Mapping

import pytest

from pgflash_lab.model.formula import Formula, Value


class Scope:
    """Variables, one call that adds up its arguments, one set of three items."""

    def __init__(self, **variables: Value) -> None:
        """Take the variables."""
        self.variables: Mapping[str, Value] = {
            "three": 3,
            "nothing": None,
            "word": "b",
            **variables,
        }

    def call(self, name: str, arguments: list[Value]) -> Value:
        """Return the sum of the arguments."""
        assert name == "add"
        return sum(arguments)

    def items(self, name: str) -> Iterator["Scope"]:
        """Yield a scope for 1, 2 and an item without a value."""
        assert name == "few"
        yield from (Scope(n=1, name="one"), Scope(n=2, name="two"), Scope(n=None, name="none"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * three", 7),
        ("-three / 2", -1.5),
        ("add(1, add(2, three))", 6),
        ('"a" + ".b"', "a.b"),
        ("1 < three <= 3", True),
        ("1 < three < 3", False),
        ('word in ("a", "b")', True),
        ('word not in ("a", "b")', False),
        ("three == 3 and not three > 4", True),
        ("three > 4 or three", 3),
        ("nothing or 0", 0),
        # Everything computed from a missing value is missing.
        ("nothing + 1", None),
        ("-nothing", None),
        ("nothing < 1", None),
        ("three > 1 and nothing", None),
        ("three / 0", None),
        # Over a set.
        ("sum(few, n)", None),
        ("sum(few, 2)", 6),
        ("count(few, n > 1)", 1),
        ("best(few, n, name)", "two"),
        ("best(few, -n, name)", "one"),
        ("best(few, nothing, name)", None),
    ],
)
def test_a_formula_has_its_value_or_none(text: str, value: Value) -> None:
    assert Formula(text).value(Scope()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "three.real",
        "three[0]",
        "[1, 2]",
        "lambda: 1",
        "add(x=1)",
        "add(*three)",
        "(lambda: 1)()",
        "add.call(1)",
        "1 if three else 2",
        "three ** 99999",
        "2 << 99999",
        "f'{three}'",
        "b'bytes'",
        "None",
        "(x := 1)",
        "sum(few)",
        'sum("few", 1)',
        "best(few, n)",
    ],
)
def test_nothing_else_of_python_is_a_formula(text: str) -> None:
    with pytest.raises(ValueError, match=r"formula"):
        Formula(text)


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(LookupError, match="no variable four; there are nothing, three, word"):
        Formula("four").value(Scope())


def test_a_formula_says_what_it_asks_for() -> None:
    assert Formula("add(sum(few, other(n)), 1)").calls == {"add", "other"}
