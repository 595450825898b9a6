# SPDX-License-Identifier: PostgreSQL
"""Snapshots made by hand, and a store for them: for tests of pgflash.analyze.

    store = Shelf()
    store.put(0, {"io": [{...}]})
    store.put(10, {"io": [{...}]})
    make_period(store, 1, 2)

The rows of a section are dictionaries; omitted values are null.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pgflash.model.snapshot import Baseline, Section, SectionKind, SnapshotHead, Value
from pgflash.model.snapshot_sections import SECTIONS
from pgflash.store.section import possible

EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


Rows = Sequence[Mapping[str, Value]]


def section(name: str, rows: Rows, *, kind: SectionKind | None = None) -> Section:
    """Return a section of dictionaries."""
    columns = tuple(dict.fromkeys(column for row in rows for column in row))
    if kind is None:
        kind = SECTIONS[name].kind if name in SECTIONS else SectionKind.COUNTER
    rows_ = tuple(tuple(row.get(column) for column in columns) for row in rows)
    return possible(Section(name=name, kind=kind, columns=columns, rows=rows_))


class Shelf:
    """A store in memory."""

    name = "the shelf"

    def __init__(
        self, *, version_num: int = 170010, texts: Mapping[int, str] | None = None
    ) -> None:
        self._version_num = version_num
        self._heads: list[SnapshotHead] = []
        self._sections: list[dict[str, Section]] = []
        self._texts = dict(texts or {})
        self.kept: dict[str, Baseline] = {}

    def put(
        self,
        minute: float,
        sections: Mapping[str, Rows],
        *,
        started_minute: float = -60,
        linked: bool = True,
    ) -> int:
        """Take a snapshot; return its id."""
        head = SnapshotHead(
            id=len(self._heads) + 1,
            taken_at=EPOCH + timedelta(minutes=minute),
            started_at=EPOCH + timedelta(minutes=started_minute),
            previous_id=self._heads[-1].id if self._heads and linked else None,
            took_ms=1.0,
            origin="command",
            server_version_num=self._version_num,
            extension_version="0.1" if "io" in sections else "",
        )
        self._heads.append(head)
        self._sections.append({name: section(name, rows) for name, rows in sections.items()})
        return head.id

    def replace(self, snapshot_id: int, changed: Section) -> None:
        """Put another section into a snapshot."""
        self._sections[snapshot_id - 1][changed.name] = changed

    def list(self) -> tuple[SnapshotHead, ...]:
        return tuple(self._heads)

    def sections(self, snapshot_id: int) -> dict[str, Section]:
        return dict(self._sections[snapshot_id - 1])

    def sections_between(
        self, begin_id: int, end_id: int, name: str
    ) -> tuple[tuple[SnapshotHead, Section], ...]:
        return tuple(
            (head, self._sections[head.id - 1][name])
            for head in self._heads
            if begin_id < head.id <= end_id and name in self._sections[head.id - 1]
        )

    def queries(self, query_ids: Iterable[int]) -> dict[int, str]:
        return {one: self._texts[one] for one in query_ids if one in self._texts}

    def baselines(self) -> tuple[Baseline, ...]:
        return tuple(self.kept.values())

    def keep(self, name: str, begin_id: int, end_id: int) -> None:
        self.kept[name] = Baseline(name=name, begin_id=begin_id, end_id=end_id, kept_at=EPOCH)

    def release(self, name: str) -> None:
        del self.kept[name]
