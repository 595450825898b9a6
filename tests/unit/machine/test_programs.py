# SPDX-License-Identifier: PostgreSQL
"""The imports of an executable, and the doctor's verdict on it before anything is installed."""

import random
import re
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from pgflash.advise.doctor.binary import judge
from pgflash.api import doctor_binary
from pgflash.cli import main
from pgflash.machine.programs import Program, ProgramError, read_program
from pgflash.model.doctor import Outcome
from pgflash.model.server_imports import REPLACED, REQUIRED
from pgflash_lab.postgres import PgInstall
from support.imports import imported

#: Calls what the library requires, and is called a server of PostgreSQL 18.
SERVER = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>
const char version[] = "postgres (PostgreSQL) 18.1";
int main(int count, char **names)
{
	int fd = open(names[0], O_RDONLY);
	char byte;

	(void) !pread(fd, &byte, 1, count);
	(void) !pwrite(fd, &byte, 1, count);
	(void) !(ftruncate(fd, 0) + truncate(names[0], 0) + unlink(names[0]));
	MORE
	return close(fd) + version[count];
}
"""

#: The note that a linker writes for -z memory-seal, in a section of a name that linkers without
#: that option leave as it is.
SEAL = """
	.section .note.seal, "a", %note
	.balign 8
	.long 4, 8, 5
	.asciz "GNU"
	.long 3, 0
"""

#: The reason to skip a test without a compiler; one for another processor also needs its libc.
MISSING = {
    "gcc": "there is no gcc: apt-get install gcc",
    "aarch64-linux-gnu-gcc": "there is no compiler for ARM:"
    " apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
}


def build(
    folder: Path, *flags: str, more: str = "", sealed: bool = False, compiler: str = "gcc"
) -> Path:
    """Return a program that is like a server."""
    if shutil.which(compiler) is None:
        pytest.skip(MISSING[compiler])
    source, note, program = folder / "server.c", folder / "seal.s", folder / "server"
    source.write_text(SERVER.replace("MORE", more))
    note.write_text(SEAL if sealed else "")
    argv = [compiler, "-O1", "-U_FORTIFY_SOURCE", *flags, "-o", program, source, note]
    subprocess.run([str(one) for one in argv], check=True)
    return program


def outcomes(program: Program) -> dict[str, Outcome]:
    """Return the outcome of each rule."""
    return {one.rule: one.outcome for one in judge(program)}


@pytest.mark.extension
def test_a_real_server_is_read_as_other_tools_read_it(pg_install: PgInstall) -> None:
    server = pg_install.bindir / "postgres"
    program = read_program(server)
    assert program.major == pg_install.major
    assert {*program.slots} & {*REPLACED} == imported(server) & {*REPLACED}
    argv = ["readelf", "--relocs", "--wide", str(server)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    counted = Counter(
        re.findall(r"(?:JUMP_SLOT?|GLOB_DAT?|_64|ABS64)\s+0{16} (\w+)@\S+ \+ 0$", said, re.M)
    )
    assert {name: program.slots[name] for name in {*program.slots} & {*REPLACED}} == {
        name: counted[name] for name in {*counted} & {*REPLACED}
    }
    assert not program.is_sealed
    assert {*outcomes(program).values()} == {Outcome.GOOD}


@pytest.mark.parametrize(
    "flags",
    [
        ["-no-pie", "-Wl,-z,lazy"],
        ["-pie", "-fPIE", "-Wl,-z,relro", "-Wl,-z,now"],
        ["-pie", "-fPIE", "-fno-plt"],
    ],
    ids=["lazy", "read-only", "without a procedure linkage table"],
)
@pytest.mark.parametrize("compiler", ["gcc", "aarch64-linux-gnu-gcc"])
def test_a_program_is_read_however_it_is_linked(
    tmp_path: Path, flags: list[str], compiler: str
) -> None:
    program = read_program(build(tmp_path, *flags, compiler=compiler))
    assert all(program.slots.keys() & {*names} for names in REQUIRED)
    # The linkage table is read-only if all is bound at once, other pointers are in any case.
    assert ("pread" in program.read_only) == ("-pie" in flags)
    # A read-only table is not a seal.
    assert not program.is_sealed
    assert {*outcomes(program).values()} == {Outcome.GOOD}


def test_a_program_that_asks_to_be_sealed_is_named(tmp_path: Path) -> None:
    program = read_program(build(tmp_path, sealed=True))
    assert program.is_sealed
    assert outcomes(program)["binary-sealed"] == Outcome.UNKNOWN


def test_a_call_that_nobody_watches_is_named(tmp_path: Path) -> None:
    more = "struct iovec none = {0}; (void) !pwritev2(1, &none, 1, 0, 0);"
    found = doctor_binary(build(tmp_path, more=more))
    assert found[0].rule == "binary-foreign"
    assert found[0].outcome == Outcome.WARNING
    assert "pwritev2" in found[0].sentence


def test_a_program_that_is_linked_statically_has_nothing_to_replace(tmp_path: Path) -> None:
    found = doctor_binary(build(tmp_path, "-static"))
    assert found[0].rule == "binary-kind"
    assert "statically" in found[0].sentence


def patched(program: Path, at: int, new: bytes) -> Path:
    """Change bytes of a program."""
    content = bytearray(program.read_bytes())
    content[at : at + len(new)] = new
    program.write_bytes(content)
    return program


def test_a_program_for_another_processor_is_named(tmp_path: Path) -> None:
    found = doctor_binary(patched(build(tmp_path), 18, struct.pack("<H", 243)))
    assert found[0].rule == "binary-kind"
    assert "243" in found[0].sentence


def test_a_program_without_relocations_lacks_all_that_is_required(tmp_path: Path) -> None:
    program = build(tmp_path)
    said = subprocess.run(
        ["readelf", "--program-headers", "--wide", program],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.search(r"DYNAMIC\s+0x(\w+) \S+ \S+ 0x(\w+)", said)
    assert found is not None
    begin, size = int(found[1], 16), int(found[2], 16)
    content = program.read_bytes()
    for at in range(begin, begin + size, 16):
        (tag,) = struct.unpack_from("<Q", content, at)
        if tag in (2, 8):  # DT_PLTRELSZ, DT_RELASZ
            patched(program, at + 8, bytes(8))
    (wrong,) = (one for one in doctor_binary(program) if one.outcome == Outcome.WARNING)
    assert wrong.rule == "binary-imports"
    for names in REQUIRED:
        assert names[0] in wrong.sentence


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"#!/bin/sh\n" * 20, "is not an executable file"),
        (b"\x7fELF", "is not an executable file"),
        (b"\x7fELF\x01\x01\x01" + bytes(200), "is not for a 64-bit little-endian machine"),
        (b"\x7fELF\x02\x02\x01" + bytes(200), "is not for a 64-bit little-endian machine"),
    ],
    ids=["empty", "script", "short", "32 bits", "big-endian"],
)
def test_a_file_that_is_no_program_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ProgramError, match=why):
        read_program(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ProgramError, match="could not read"):
            read_program(path)


def test_a_damaged_program_ends_in_an_answer_or_in_an_error(tmp_path: Path) -> None:
    program = build(tmp_path)
    whole = program.read_bytes()
    choice = random.Random(8)
    answers = 0
    for _ in range(400):
        content = bytearray(whole[: choice.choice([len(whole), choice.randrange(len(whole))])])
        for _ in range(choice.randrange(1, 6)):
            at = choice.randrange(4, 4000)
            content[at : at + 1] = bytes([choice.randrange(256)])
        program.write_bytes(content)
        try:
            judge(read_program(program))
            answers += 1
        except ProgramError:
            pass
    assert 0 < answers < 400


def test_the_command_fails_where_it_is_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = str(build(tmp_path))
    assert main(["doctor", "--binary", good, "--fail-on", "warning"]) == 0
    said = capsys.readouterr().out
    assert "would be replaced" in said
    assert "pwrite" in said
    assert main(["doctor", "--binary", "/bin/sh", "--fail-on", "warning"]) == 1
