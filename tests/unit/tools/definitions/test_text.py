# SPDX-License-Identifier: PostgreSQL
"""The formatters leave generated text unchanged, and the compilers can read it."""

import ast
import subprocess
import sys

import pytest

from definitions.text import c_string, python_tuple


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 12, 30])
def test_a_tuple_is_as_ruff_formats_it(count: int) -> None:
    words = [f"word_{number}" for number in range(count)]
    source = f"x = f(\n    columns={python_tuple(words, indent=4)},\n)\n"
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == source
    assert ast.literal_eval(python_tuple(words)) == tuple(words)


def test_a_c_string_says_the_same_in_c() -> None:
    assert c_string('say "a\\b"\n') == r'"say \"a\\b\"\n"'
