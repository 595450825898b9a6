# SPDX-License-Identifier: PostgreSQL
"""One colour for each meaning, the same on every page.

The colours stay distinct under the common kinds of colour blindness (most are Okabe and Ito's) and
against white; lines also differ in their dashes, stacks in their order. Disk reads have the same
blue everywhere: as a source of reads and as a wait.
"""

from pgflash.model.waits import WaitClass

DISK = "#0072b2"
CPU_USER = "#009e73"

#: Colour and dash pattern of each approach; others take theirs from SPARES.
APPROACHES: dict[str, tuple[str, list[int]]] = {
    "baseline": ("#5b6470", [1, 0]),
    "flash-cache": ("#7c3aed", [1, 0]),
    "wal-on-flash": ("#db2777", [5, 3]),
    "wal-and-cache": ("#111827", [1, 0]),
    "hot-objects": ("#e69f00", [9, 3]),
    "all-on-flash": ("#9a7400", [2, 2]),
    "cache-1x": ("#c4b5fd", [2, 2]),
    "cache-2x": ("#a78bfa", [4, 3]),
    "cache-4x": ("#8b5cf6", [8, 3]),
    "cache-10x": ("#5b21b6", [1, 0]),
}
SPARES: tuple[tuple[str, list[int]], ...] = (
    ("#a16207", [8, 3]),
    ("#0072b2", [4, 2]),
    ("#009e73", [6, 2, 2, 2]),
    ("#d55e00", [1, 2]),
    ("#56b4e9", [3, 3]),
    ("#8c564b", [10, 3]),
    ("#cc79a7", [7, 4]),
)

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

PAPER = "#c3c8cf"
INK = "#1f2937"
FAINT = "#6b7280"
GRID = "#e8eaee"
