# SPDX-License-Identifier: PostgreSQL
"""Let a program run with its own loader and libraries, without moving anything in it.

A program from a newer distribution needs that distribution's C library, and so its loader.  Two
entries of the file say where both are found, and neither has room for a longer path:

- The loader's path.  The kernel reads it from the file, so it may be at the file's end.
- The libraries' folder, which a program usually does not name.  Linkers leave some empty entries
  in the dynamic section; one becomes DT_RPATH, which holds for all libraries that are loaded
  later, too.  Its text takes the former place of the loader's path.

Everything else stays as the distribution's compiler made it: segments, the import table, addresses.
"""

import struct
from pathlib import Path

_IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<QQ")
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 0, 5, 15, 29


class ElfError(Exception):
    """The file cannot be changed in this way."""


def is_elf(path: Path) -> bool:
    """Say whether a file is a program or a library for 64-bit little-endian machines."""
    with path.open("rb") as file:
        return file.read(len(_IDENT)) == _IDENT


def loader_of(program: Path) -> str | None:
    """Return the path of a program's loader; a library has none."""
    content = program.read_bytes()
    for _at, header in _headers(content):
        if header[0] == _PT_INTERP:
            return _text(content, header[2], header[5])
    return None


def give_loader(program: Path, loader: Path, libraries: str) -> None:
    """Make a program use a loader, and look into LIBRARIES ($ORIGIN/...) before the system's."""
    content = bytearray(program.read_bytes())
    headers = {header[0]: (at, header) for at, header in _headers(content)}
    if _PT_INTERP not in headers or _PT_DYNAMIC not in headers:
        raise ElfError(f"{program} has no loader")
    at, (kind, flags, offset, address, physical, size, memory_size, align) = headers[_PT_INTERP]
    folder = libraries.encode() + b"\0"
    if len(folder) > size:
        raise ElfError(f"{program} has no room for {libraries}")
    _add_rpath(content, headers[_PT_DYNAMIC][1], address)
    content[offset : offset + len(folder)] = folder
    text = str(loader).encode() + b"\0"
    changed = (kind, flags, len(content), address, physical, len(text), memory_size, align)
    _PROGRAM_HEADER.pack_into(content, at, *changed)
    program.write_bytes(content + text)


def _add_rpath(content: bytearray, header: tuple[int, ...], address: int) -> None:
    """Put DT_RPATH, with the text at ADDRESS, into an empty entry of the dynamic section."""
    offset, size = header[2], header[5]
    entries = list(_DYNAMIC.iter_unpack(content[offset : offset + size]))
    values = dict(reversed(entries))
    tags = [tag for tag, _value in entries]
    if values.keys() & {_DT_RPATH, _DT_RUNPATH} or _DT_STRTAB not in values:
        raise ElfError("its dynamic section names a folder of libraries already")
    if tags.count(_DT_NULL) < 2:  # the last one ends the section
        raise ElfError("its dynamic section has no empty entry")
    # The loader adds them, so what is before the strings is as good as what is in them.
    relative = (address - values[_DT_STRTAB]) % 2**64
    _DYNAMIC.pack_into(content, offset + tags.index(_DT_NULL) * _DYNAMIC.size, _DT_RPATH, relative)


def _headers(content: bytes | bytearray) -> list[tuple[int, tuple[int, ...]]]:
    """Return the program headers, each with its place in the file."""
    if content[: len(_IDENT)] != _IDENT:
        raise ElfError("it is no ELF file for 64-bit little-endian machines")
    (begin,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    places = range(begin, begin + size * count, size)
    return [(at, _PROGRAM_HEADER.unpack_from(content, at)) for at in places]


def _text(content: bytes, offset: int, size: int) -> str:
    return content[offset : offset + size].split(b"\0")[0].decode()
