# SPDX-License-Identifier: PostgreSQL
"""Formulas in a paper's file, such as 'tpm("all-on-flash") / tpm("baseline")'.

A formula is a number computed from named values, as in a spreadsheet: numbers, texts, variables,
+ - * /, comparisons, and, or, not, and calls.  Nothing else is accepted, and the calls are a closed
list.  A scope gives variables and calls their meaning; three forms are part of the language, since
they compute a formula for each item of a set:

    sum(SET, FORMULA)               the sum over all items
    count(SET, FORMULA)             the number of items for which it is true (or not 0)
    best(SET, FORMULA, RESULT)      RESULT for the item whose FORMULA is largest

Where a value is missing (None), so is whatever is computed from it; a division by zero is missing,
too.  In a set, items without a value are left out, except that their sum is missing.
"""

import ast
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Protocol

Value = Any

#: Calls that belong to the language.
FORMS = {"sum": 2, "count": 2, "best": 3}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: one / other if other else None,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}


class Scope(Protocol):
    """What the names in a formula mean."""

    @property
    def variables(self) -> Mapping[str, Value]:
        """The variables."""

    def call(self, name: str, arguments: list[Value]) -> Value:
        """Return a named value."""

    def items(self, name: str) -> "Iterable[Scope]":
        """Return a scope for each item of a set."""


class Formula:
    """A formula that was accepted; ValueError says why one is not."""

    __slots__ = ("text", "tree")

    def __init__(self, text: str) -> None:
        """Parse the text."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise ValueError(f"'{text}' is no formula") from None
        _accept(tree, text)
        self.text = text
        self.tree = tree

    @property
    def calls(self) -> frozenset[str]:
        """The names of the values that it asks for."""
        called = (
            node.func.id
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        )
        return frozenset(called) - FORMS.keys()

    def texts(self, variable: str, calls: Collection[str]) -> Iterator[str]:
        """Yield the texts with which a variable is compared, and those that begin these calls."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in calls:
                    parts = [first]
                case ast.Compare(left=ast.Name(id=name), comparators=parts) if name == variable:
                    parts = [one for part in parts for one in getattr(part, "elts", [part])]
                case _:
                    continue
            yield from (
                one.value
                for one in parts
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )

    def value(self, scope: Scope) -> Value:
        """Compute it."""
        return _value(self.tree, scope)


_NODES = (
    ast.Name,
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.Tuple,
    ast.Load,
    ast.boolop,
    ast.UnaryOp,
)


def _accept(tree: ast.expr, text: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            accepted = isinstance(node.value, str | int | float)
        elif isinstance(node, ast.Call):
            accepted = isinstance(node.func, ast.Name) and not node.keywords
            wanted = FORMS.get(node.func.id) if isinstance(node.func, ast.Name) else None
            if wanted is not None and (
                len(node.args) != wanted or not isinstance(node.args[0], ast.Name)
            ):
                raise ValueError(f"'{text}': {ast.unparse(node.func)} takes a set and formulas")
        else:
            accepted = isinstance(
                node,
                (*_NODES, *_ARITHMETIC, *_SIGNS, *_COMPARED),
            )
        if not accepted:
            raise ValueError(f"'{text}': a formula has no {ast.unparse(node) or type(node)}")


def _value(node: ast.expr, scope: Scope) -> Value:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _variable(name, scope)
        case ast.Tuple(elts=parts):
            return tuple(_values(parts, scope))
        case ast.UnaryOp(op=sign, operand=inner):
            value = _value(inner, scope)
            return None if value is None else _SIGNS[type(sign)](value)
        case ast.BinOp(left=left, op=sign, right=right):
            return _both(_ARITHMETIC[type(sign)], _value(left, scope), _value(right, scope))
        case ast.Compare(left=left, ops=signs, comparators=others):
            return _compared(signs, _values([left, *others], scope))
        case ast.BoolOp(op=word, values=parts):
            return _joined(word, _values(parts, scope))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _called(name, arguments, scope)
    raise AssertionError(ast.unparse(node))


def _values(nodes: Iterable[ast.expr], scope: Scope) -> list[Value]:
    return [_value(one, scope) for one in nodes]


def _variable(name: str, scope: Scope) -> Value:
    if name not in scope.variables:
        there_are = ", ".join(sorted(scope.variables)) or "none"
        raise LookupError(f"no variable {name}; there are {there_are}")
    return scope.variables[name]


def _compared(signs: Iterable[ast.cmpop], values: list[Value]) -> Value:
    if None in values:
        return None
    pairs = zip(signs, pairwise(values), strict=True)
    return all(_COMPARED[type(sign)](*pair) for sign, pair in pairs)


def _joined(word: ast.boolop, values: list[Value]) -> Value:
    """Return whether all hold; of values joined by "or", the first that is there and not 0."""
    if isinstance(word, ast.Or):
        return next((one for one in values if one), values[-1])
    return None if None in values else all(values)


def _called(name: str, arguments: list[ast.expr], scope: Scope) -> Value:
    if name in FORMS:
        return _over_set(name, arguments, scope)
    return scope.call(name, _values(arguments, scope))


def _both(do: Callable[[Any, Any], Any], one: Value, other: Value) -> Value:
    if one is None or other is None:
        return None
    return do(one, other)


def _over_set(form: str, arguments: list[ast.expr], scope: Scope) -> Value:
    name, formula, *result = arguments
    assert isinstance(name, ast.Name)
    found = [(_value(formula, item), item) for item in scope.items(name.id)]
    known = [(value, item) for value, item in found if value is not None]
    if form == "count":
        return sum(bool(value) for value, _ in known)
    if not known:
        return None
    if form == "sum":
        return sum(value for value, _ in known) if len(known) == len(found) else None
    return _value(result[0], max(known, key=lambda pair: pair[0])[1])
