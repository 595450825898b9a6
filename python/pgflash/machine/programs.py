# SPDX-License-Identifier: PostgreSQL
"""An executable file: what it imports, as the library in its process will find it (objects.c).

A program calls libc through a table of pointers, its import table.  A relocation describes each
entry: where the pointer is, and the function's name.  Only those that the library can use are
counted: a whole pointer, aligned, in memory that the program may write before the loader protects
it.  Nothing is run, and no address is trusted that is outside the file.
"""

import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import PgflashError

_IDENT = struct.Struct("<4sBBB")
_HEADER = struct.Struct("<HHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<QQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_PROPERTY = struct.Struct("<II")

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_PT_GNU_PROPERTY, _PT_GNU_RELRO = 0x6474E553, 0x6474E552
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ = 2, 5, 6, 7, 8
_DT_STRSZ, _DT_PLTREL, _DT_JMPREL = 10, 20, 23
_PF_WRITE = 2
#: In a note of the type NT_GNU_PROPERTY_TYPE_0: asks the loader to seal the program's memory.
_NT_PROPERTIES, _PROPERTY_SEAL = 5, 3

#: Processors, each with the types of relocations of its import tables: a slot of the procedure
#: linkage table, of another table, and any pointer.
_PROCESSORS: Mapping[int, tuple[str, tuple[int, int, int]]] = {
    62: ("x86-64", (7, 6, 1)),
    183: ("aarch64", (1026, 1025, 257)),
}


class ProgramError(PgflashError):
    """The file is not a program that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An executable file."""

    #: "x86-64", "aarch64", or the number of another processor.
    processor: str
    #: Whether the library knows the import tables of this processor.
    is_known: bool
    #: Whether a loader fills in an import table; False: it is linked statically.
    is_dynamic: bool
    #: How many slots of the import table each function has.
    slots: Mapping[str, int]
    #: Functions with a slot that the loader makes read-only after it has filled it in.
    read_only: frozenset[str]
    #: Whether it asks the loader to seal its memory (mseal), which nothing can undo.
    is_sealed: bool
    #: The major version of PostgreSQL whose server it is; None: it is not a server.
    major: int | None


def read_program(path: Path) -> Program:
    """Read an executable file; ProgramError if it is not one for 64-bit little-endian machines."""
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return _Reader(path, content).program()
    except OSError as error:
        raise ProgramError(f'could not read "{path}": {error.strerror}') from error
    except ValueError as error:  # of mmap: the file is empty
        raise ProgramError(f'"{path}" is empty') from error
    except (struct.error, UnicodeDecodeError, OverflowError) as error:
        raise ProgramError(f'"{path}" is a damaged executable') from error


class _Reader:
    """Reads one file."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self._content = content
        if len(content) < 64 or content[:4] != b"\x7fELF":
            raise ProgramError(f'"{path}" is not an executable file')
        _magic, bits, order, _version = _IDENT.unpack_from(content)
        if (bits, order) != (2, 1):
            raise ProgramError(f'"{path}" is not for a 64-bit little-endian machine')
        header = _HEADER.unpack_from(content, 16)
        self._kind, self._processor = header[0], header[1]
        begin, size, count = header[4], header[8], header[9]
        self._segments = [
            _SEGMENT.unpack_from(content, begin + i * size) for i in range(count) if size
        ]
        self._dynamic = dict(self._dynamic_entries())

    def program(self) -> Program:
        """Return what the file says."""
        name, types = _PROCESSORS.get(self._processor, (f"number {self._processor}", None))
        kinds = {segment[0] for segment in self._segments}
        slots: dict[str, int] = {}
        read_only: set[str] = set()
        if types is not None:
            for function, address in self._imports(types):
                slots[function] = slots.get(function, 0) + 1
                if self._is_read_only(address):
                    read_only.add(function)
        version = re.search(rb"postgres \(PostgreSQL\) (\d{1,3})", self._content)
        return Program(
            processor=name,
            is_known=types is not None,
            is_dynamic=_PT_INTERP in kinds and bool(self._dynamic),
            slots=slots,
            read_only=frozenset(read_only),
            is_sealed=self._is_sealed(),
            major=int(version[1]) if version else None,
        )

    def _segments_of(self, *kinds: int) -> Iterator[tuple[int, ...]]:
        return (one for one in self._segments if one[0] in kinds)

    def _dynamic_entries(self) -> Iterator[tuple[int, int]]:
        for segment in self._segments_of(_PT_DYNAMIC):
            part = self._content[segment[2] : segment[2] + segment[5]]
            for tag, value in _DYNAMIC.iter_unpack(part[: len(part) // 16 * 16]):
                if tag == 0:
                    return
                yield tag, value

    def _is_read_only(self, address: int) -> bool:
        return any(one[3] <= address < one[3] + one[6] for one in self._segments_of(_PT_GNU_RELRO))

    def _place(self, address: int, size: int, flags: int = 0) -> int | None:
        """Return where in the file something is that will be at an address; None: nowhere."""
        for segment in self._segments_of(_PT_LOAD):
            _kind, has, offset, begin, _physical, in_file, in_memory, _align = segment
            if has & flags == flags and begin <= address <= begin + in_memory - size:
                # A part that is only in memory, such as cleared data, has no content in the file.
                return offset + min(address - begin, in_file)
        return None

    def _imports(self, types: tuple[int, int, int]) -> Iterator[tuple[str, int]]:
        """Yield function and address of each slot that can be replaced."""
        seen = set()
        entries = self._dynamic
        if entries.get(_DT_PLTREL, _DT_RELA) != _DT_RELA:
            return
        for table, bytes_ in ((_DT_JMPREL, _DT_PLTRELSZ), (_DT_RELA, _DT_RELASZ)):
            size = entries.get(bytes_, 0)
            begin = self._place(entries.get(table, 0), size) if size else None
            if begin is None:
                continue
            part = self._content[begin : begin + size // 24 * 24]
            for address, info, addend in _RELOCATION.iter_unpack(part):
                kind, symbol = info & 0xFFFFFFFF, info >> 32
                if kind not in types or (kind == types[2] and addend != 0) or address in seen:
                    continue
                name = self._undefined(symbol)
                if name and address % 8 == 0 and self._place(address, 8, _PF_WRITE) is not None:
                    seen.add(address)
                    yield name, address

    def _undefined(self, number: int) -> str:
        """Return the name of a symbol that a library has to define; "" if it is not one."""
        entries = self._dynamic
        place = self._place(entries.get(_DT_SYMTAB, 0) + number * _SYMBOL.size, _SYMBOL.size)
        strings = self._place(entries.get(_DT_STRTAB, 0), entries.get(_DT_STRSZ, 0))
        if place is None or strings is None:
            return ""
        name, _info, _other, section, _value, _size = _SYMBOL.unpack_from(self._content, place)
        if section != 0 or name >= entries.get(_DT_STRSZ, 0):
            return ""
        end = self._content.find(b"\0", strings + name)
        return self._content[strings + name : end].decode() if end >= 0 else ""

    def _is_sealed(self) -> bool:
        return any(
            kind == _PROPERTY_SEAL
            for segment in self._segments_of(_PT_NOTE, _PT_GNU_PROPERTY)
            for kind in self._properties(segment[2], segment[2] + segment[5], max(segment[7], 4))
        )

    def _properties(self, at: int, end: int, align: int) -> Iterator[int]:
        """Yield the kinds of properties in a segment of notes."""
        while at + _NOTE.size <= end:
            name_size, size, kind = _NOTE.unpack_from(self._content, at)
            name = self._content[at + _NOTE.size : at + _NOTE.size + name_size]
            begin = at + _NOTE.size + _rounded(name_size, 4)
            at = _rounded(begin + size, min(align, 8))
            if name != b"GNU\0" or kind != _NT_PROPERTIES:
                continue
            while begin + _PROPERTY.size <= min(at, end):
                property_kind, length = _PROPERTY.unpack_from(self._content, begin)
                yield property_kind
                begin += _rounded(_PROPERTY.size + length, 8)


def _rounded(number: int, to: int) -> int:
    return -(-number // to) * to
