# SPDX-License-Identifier: PostgreSQL
"""tools/elf.py: a program runs with a loader and libraries of its own, or is left alone."""

import shutil
import subprocess
from pathlib import Path

import pytest

import elf

#: Prints which files it has mapped, its own place among them.
SOURCE = """\
#include <stdio.h>
int main(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int c;
	while ((c = getc(maps)) != EOF)
		putchar(c);
	return 0;
}
"""


def compiled(folder: Path, *flags: str) -> Path:
    """Return a program in FOLDER/bin."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "program"
    subprocess.run(
        ["gcc", "-x", "c", "-o", program, "-", *flags], input=SOURCE, text=True, check=True
    )
    return program


def mapped(program: Path) -> set[Path]:
    """Return the files that a program has mapped when it runs."""
    maps = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {Path(line.split(maxsplit=5)[5]) for line in maps.splitlines() if "/" in line}


@pytest.mark.parametrize("flags", [("-pie",), ("-no-pie",), ("-pie", "-Wl,-z,relro,-z,now")])
def test_a_program_runs_with_the_loader_and_the_libraries_it_was_given(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    program = compiled(tmp_path, *flags)
    systems = mapped(program) - {program}
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    # Under the names by which programs ask for them.
    loader = Path(shutil.copy(elf.loader_of(program) or "", libraries))
    for path in systems:
        shutil.copy(path, libraries)
    before = program.read_bytes()
    elf.give_loader(program, loader, "$ORIGIN/../libraries")
    assert mapped(program) == {program, *(libraries / path.name for path in systems)}
    assert elf.loader_of(program) == str(loader)
    after = program.read_bytes()
    changed = [at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new]
    # The loader's path, its place and size in a header, and one entry of 16 bytes.
    assert len(changed) <= len("/lib64/ld-linux-x86-64.so.2") + 16 + 16


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("-shared", "-fPIC"), "has no loader"),
        (("-Wl,-rpath,/nowhere",), "names a folder of libraries already"),
        (("-Wl,--spare-dynamic-tags=0",), "no empty entry"),
    ],
)
def test_a_file_that_cannot_be_changed_so_is_left_alone(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    program = compiled(tmp_path, *flags)
    before = program.read_bytes()
    with pytest.raises(elf.ElfError, match=said):
        elf.give_loader(program, tmp_path / "ld.so", "$ORIGIN/../libraries")
    assert program.read_bytes() == before


def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    with pytest.raises(elf.ElfError, match="has no room"):
        elf.give_loader(program, tmp_path / "ld.so", "$ORIGIN/" + "../" * 20)


def test_what_is_no_program_is_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert elf.is_elf(compiled(tmp_path))
    assert not elf.is_elf(script)
    with pytest.raises(elf.ElfError, match="no ELF file"):
        elf.loader_of(script)
