# SPDX-License-Identifier: PostgreSQL
"""What a Patroni cluster needs before it can be described; real ones are in tests/cluster."""

import importlib.metadata

import pytest

from pgflash_lab.account import ServerError
from pgflash_lab.patroni import PatroniMissingError, require_patroni, wait_for


def test_the_package_that_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if name == "pysyncobj":
            raise importlib.metadata.PackageNotFoundError(name)
        return "4.1.5"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(PatroniMissingError, match="pysyncobj") as raised:
        require_patroni()
    assert "-m pip install patroni pysyncobj" in raised.value.hint


def test_what_was_waited_for_in_vain_is_named() -> None:
    with pytest.raises(ServerError, match="in vain until a member leads"):
        wait_for("a member leads", lambda: False, wait_s=0.0)
