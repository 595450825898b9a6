# SPDX-License-Identifier: PostgreSQL
"""One colour for each meaning, the same on every page.

The colours stay distinct under the common kinds of colour blindness (most are Okabe and Ito's) and
against white; lines also differ in their dashes, areas in their hatching. Disk reads have the same
blue everywhere: as a source of reads and as a wait.
"""

from zlib import crc32

from pgflash.model.waits import WaitClass

DISK = "#0072b2"
CPU_USER = "#009e73"

#: The colour of each approach; others take theirs from _SPARES.
_APPROACHES: dict[str, str] = {
    "baseline": "#5b6470",
    "flash-cache": "#7c3aed",
    "wal-on-flash": "#db2777",
    "wal-and-cache": "#111827",
    "hot-objects": "#e69f00",
    "all-on-flash": "#9a7400",
    "cache-1x": "#c4b5fd",
    "cache-2x": "#a78bfa",
    "cache-4x": "#8b5cf6",
    "cache-10x": "#5b21b6",
    "cold-standby": "#0072b2",
    "warm-standby": "#d55e00",
    "warm-switchover": "#009e73",
}
#: For names without a meaning of their own.
_SPARES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#5b6470", "#e69f00", "#56b4e9", "#8c564b")

WAIT_CLASSES: dict[WaitClass, str] = {
    WaitClass.CPU: CPU_USER,
    WaitClass.USER_IO: DISK,
    WaitClass.COMMIT: "#e69f00",
    WaitClass.CONFIGURATION: "#8c564b",
    WaitClass.CONCURRENCY: "#d55e00",
    WaitClass.APPLICATION: "#cc79a7",
    WaitClass.NETWORK: "#999933",
    WaitClass.OTHER: "#b8bcc2",
}

SOURCES = {"OS page cache": "#a7c7e7", "Flash": "#14b8a6", "Disk": DISK}

#: The sources that serve requests, under the live page's names; a commit waits for WAL.
FLOWS = {
    "page cache": SOURCES["OS page cache"],
    "flash": SOURCES["Flash"],
    "disk": DISK,
    "disk writes": "#00456b",
    "wal": WAIT_CLASSES[WaitClass.COMMIT],
    "temp": "#8d7fb8",
}

CPU = {"User": CPU_USER, "System": "#86cfb6", "I/O wait": "#7fb2d9", "Idle": "#e5e7eb"}

OTHERS = "#c3c8cf"
INK = "#1f2937"
FAINT = "#6b7280"
GRID = "#e8eaee"


def of_approach(name: str) -> str:
    """Return the colour that an approach has on every page."""
    return _APPROACHES.get(name, spare(crc32(name.encode())))


def of_name(name: str, number: int) -> str:
    """Return the colour of what a name means, or else the spare one with this number."""
    wait_class = next((one for one in WAIT_CLASSES if str(one) == name), None)
    if wait_class is not None:
        return WAIT_CLASSES[wait_class]
    folded = name.casefold()
    for title, colour in CPU.items():
        if title.casefold() == folded:
            return colour
    for source, colour in SOURCES.items():
        if source.casefold().removeprefix("os ") in folded:
            return colour
    return spare(number)


def spare(number: int) -> str:
    """Return one of the colours without a meaning."""
    return _SPARES[number % len(_SPARES)]
