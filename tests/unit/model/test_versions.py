# SPDX-License-Identifier: PostgreSQL
"""What is to be done where a server's library, its files and its SQL are of several versions."""

import pytest

from pgflash.model.versions import Versions


def versions(library: str, extension: str, installed: str, *, is_loaded: bool = True) -> Versions:
    return Versions(
        command="0.2.0",
        kernel="Linux",
        library=library,
        is_loaded=is_loaded,
        extension=extension,
        installed=installed,
    )


@pytest.mark.parametrize(
    ("library", "extension", "installed", "said"),
    [
        ("0.2", "0.2", "0.2", ""),
        ("0.2", "", "0.2", ""),
        ("0.2", "0.1", "0.2", "Run ALTER EXTENSION pgflash UPDATE"),
        # The files are new, the server runs on.
        ("0.1", "0.1", "0.2", "Restart the server: its files are of version 0.2"),
        # The update was run on the primary, or the packages went back.
        ("0.2", "0.10", "0.2", "Install pgflash 0.10 and restart"),
        ("0.1", "0.2", "0.2", "Restart the server"),
    ],
)
def test_the_remedy_is_the_next_step(
    library: str, extension: str, installed: str, said: str
) -> None:
    found = versions(library, extension, installed)
    assert found.remedy.startswith(said)
    assert bool(found.remedy) is bool(said)
    assert found.fit is (library == extension or not extension)


def test_a_library_that_is_not_loaded_comes_first() -> None:
    found = versions("", "0.1", "0.2", is_loaded=False)
    assert found.remedy.startswith("Add pgflash to shared_preload_libraries")
    assert found.fit
