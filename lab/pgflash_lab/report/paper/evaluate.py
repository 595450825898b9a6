# SPDX-License-Identifier: PostgreSQL
"""What the names in a paper's formulas mean: its printed numbers, and the figures of a run.

A formula is computed for one side, the paper's or ours; a figure that the file declares has a
formula for each.  The other names are the functions at the end of this module, a closed list that
docs/reference/papers.md explains.  Their first argument is an approach (or a role that the file
gives to one); whatever a run lacks is None.
"""

import inspect
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pgflash.model.awr import AwrReport, Number, RowMark, plain
from pgflash.model.prices import storage_price
from pgflash_lab.analyze.cost import approach_costs, as_raid5
from pgflash_lab.model.formula import Formula, Value
from pgflash_lab.model.paper import (
    HINT,
    Paper,
    PaperApproach,
    PaperError,
    PaperExhibit,
    Role,
    Set,
    formulas_of,
    paper_prices,
    printed_number,
)
from pgflash_lab.model.run import Attempt, Run
from pgflash_lab.model.summary import Summary, counted_attempts, summarize
from pgflash_lab.report.paper import host, parts, queries
from pgflash_lab.report.paper.load import FIGURES


@dataclass(frozen=True)
class Sides:
    """A paper and a run."""

    paper: Paper
    run: Run
    reports: Mapping[str, AwrReport]

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """The measured approaches by name."""
        return {one.approach.name: one for one in summarize(self.run)}

    @cached_property
    def pairs(self) -> queries.Pairs:
        """The approaches that ran the same queries on the array and on flash."""
        return queries.Pairs(self.run)

    @cached_property
    def roles(self) -> dict[str, str]:
        """The approaches that have a role."""
        return {name: self._cast(role) for name, role in self.paper.roles.items()}

    def name(self, approach: str) -> str:
        """Return an approach's name, also by its role."""
        return approach if approach in self.summaries else self.roles.get(approach, approach)

    def summary(self, approach: str) -> Summary | None:
        """Return an approach's medians."""
        return self.summaries.get(self.name(approach))

    def middle(self, approach: str) -> Attempt | None:
        """Return an approach's middle attempt, whose report is shown."""
        found = self.summary(approach)
        return found.middle if found else None

    def report(self, approach: str) -> AwrReport | None:
        """Return the report on an approach."""
        return self.reports.get(self.name(approach))

    def title(self, approach: str) -> str:
        """Return an approach's title: of the run if it was measured, else of the paper."""
        found = self.summary(approach)
        if found is not None:
            return found.approach.title
        titles = {one.name: one.title for one in self.run.approaches}
        titles |= {one.name: one.title for one in self.paper.approaches}
        return titles.get(approach, approach)

    def missing(self, needs: tuple[str, ...], reported: tuple[str, ...]) -> str:
        """Say why an exhibit about these approaches cannot be shown; "" if it can."""
        for name in needs:
            if not self.name(name):
                return self.paper.roles[name].otherwise
        attempts, having = [self.name(one) for one in needs], [self.name(one) for one in reported]
        return parts.why_missing(self.run, attempts, *attempts) or parts.why_missing(
            self.run, self.reports, *having
        )

    def scope(self) -> "Scope":
        """Return a scope for formulas of our side."""
        return Scope(sides=self, of_paper=False, variables=self.paper.words)

    def _cast(self, role: Role) -> str:
        items = list(_chosen(self.scope(), "measured", role.where))
        if role.largest is not None:
            largest = role.largest
            items.sort(key=lambda item: -(largest.value(item) or 0))
        return str(items[0].variables["approach"]) if items else ""


@dataclass(frozen=True)
class Scope:
    """The meaning of names for one side, and for one item of each set that is gone through."""

    sides: Sides
    of_paper: bool
    variables: Mapping[str, Value] = field(default_factory=dict)

    def of(self, *, paper: bool) -> "Scope":
        """Return the same for a side."""
        return replace(self, of_paper=paper)

    def having(self, variables: Mapping[str, Value]) -> "Scope":
        """Return the same with more variables; an approach brings its title along."""
        added = dict(variables)
        if "approach" in added and "title" not in added:
            added["title"] = self.sides.title(str(added["approach"]))
        return replace(self, variables={**self.variables, **added})

    def call(self, name: str, arguments: list[Value]) -> Value:
        """Return a figure of the file, or the value of a function."""
        figure = self.sides.paper.figures.get(name)
        if figure is not None:
            approach = str(arguments[0]) if arguments else ""
            formula, by_name = (
                (figure.paper, figure.paper_of) if self.of_paper else (figure.ours, figure.ours_of)
            )
            formula = by_name.get(approach, formula)
            inner = self.having({"approach": approach}) if arguments else self
            if formula is not None:
                return formula.value(inner)
            if self.of_paper or name not in FUNCTIONS:
                return None
        try:
            function = FUNCTIONS[name]
        except KeyError:
            raise LookupError(f"{name} is unknown") from None
        if None in arguments:
            return False if name == "known" else None
        try:
            inspect.signature(function).bind(self.sides, *arguments)
        except TypeError as error:
            raise LookupError(f"{name}(): {error}") from None
        return function(self.sides, *arguments)

    def items(self, name: str) -> Iterator["Scope"]:
        """Return a scope for each item of a set."""
        declared = self.sides.paper.sets.get(name)
        if declared is None:
            built_in = SETS.get(name)
            if built_in is None:
                raise LookupError(f"no set {name}; there are {', '.join(sorted(_sets(self)))}")
            for variables in built_in(self.sides):
                yield self.having(variables)
        elif isinstance(declared, Set) and declared.ran_by:
            ran_by = [self.sides.name(one) for one in declared.ran_by]
            for query in self.sides.pairs.common(ran_by):
                yield self.having({"query": query})
        elif isinstance(declared, Set):
            found = list(_chosen(self, declared.of, declared.where))
            if declared.by is not None:
                by = declared.by
                found.sort(key=lambda item: by.value(item) or 0)
            yield from found
        else:
            for item in declared:
                yield self.having({"approach": item} if isinstance(item, str) else item)


def _chosen(scope: Scope, of: str, where: Formula | None) -> Iterator[Scope]:
    return (item for item in scope.items(of) if where is None or where.value(item))


def _sets(scope: Scope) -> set[str]:
    return {*scope.sides.paper.sets, *SETS}


def check_names(paper: Paper, run: Run) -> None:
    """Raise PaperError if a formula names a value or an approach that nothing declares."""
    values = {*FUNCTIONS, *paper.figures}
    of_approaches = {name for name, one in FUNCTIONS.items() if _is_of_approach(one)}
    of_approaches |= paper.figures.keys()
    approaches = {*(one.name for one in run.approaches), *_declared_approaches(paper)}
    for place, formula in formulas_of(paper):
        _refuse_unknown(paper, place, formula, "asks for {}()", formula.calls, values)
        named = formula.texts("approach", of_approaches)
        _refuse_unknown(paper, place, formula, 'names the approach "{}"', named, approaches)


def _refuse_unknown(
    paper: Paper, place: str, formula: Formula, does: str, names: Iterable[str], known: set[str]
) -> None:
    for name in sorted({*names} - known):
        raise PaperError(
            f'paper {paper.id}, {place}: "{formula.text}" {does.format(name)}; '
            f"allowed: {', '.join(sorted(known))}",
            hint=HINT,
        )


def _is_of_approach(function: Callable[..., Value]) -> bool:
    return "approach" in list(inspect.signature(function).parameters)[1:2]


def _declared_approaches(paper: Paper) -> Iterator[str]:
    """Yield what a paper's file calls an approach, outside of formulas."""
    yield from (one.name for one in paper.approaches)
    yield from paper.roles
    for figure in paper.figures.values():
        yield from (*figure.ours_of, *figure.paper_of)
    for items in paper.sets.values():
        for item in () if isinstance(items, Set) else items:
            if isinstance(item, str):
                yield item
            elif "approach" in item:
                yield str(item["approach"])


# ---- the paper's numbers ------------------------------------------------------------------


def said(sides: Sides, exhibit: str, row: str, column: str) -> Value:
    """Return a printed number."""
    return _exhibit(sides, exhibit).number(row, column)


def minutes(sides: Sides, exhibit: str, row: str, column: str) -> Value:
    """Return a printed duration, "00:53", in minutes."""
    found = _exhibit(sides, exhibit)
    hours, rest = found.row(row)[found.place(column)].split(":")
    return 60 * (printed_number(hours) or 0.0) + (printed_number(rest) or 0.0)


def average(sides: Sides, exhibit: str, column: str) -> Value:
    """Return the mean of a printed column."""
    found = _exhibit(sides, exhibit)
    cells = [printed_number(row[found.place(column)]) for row in found.rows]
    known = [cell for cell in cells if cell is not None]
    return sum(known) / len(known) if known else None


def total(sides: Sides, exhibit: str, column: str, where: str, *wanted: str) -> Value:
    """Return the sum of a printed column's rows that have certain words in another column."""
    found = _exhibit(sides, exhibit)
    place, words = found.place(column), found.place(where)
    return sum(printed_number(row[place]) or 0.0 for row in found.rows if row[words] in wanted)


def first_word(sides: Sides, exhibit: str, column: str) -> Value:
    """Return the words in a printed column's first row; a class that is not printed is CPU."""
    found = _exhibit(sides, exhibit)
    return found.rows[0][found.place(column)] or "CPU"


def printed(sides: Sides, approach: str) -> Value:
    """Return the number that the file names for one of the paper's approaches."""
    found = _approach(sides, approach)
    return said(sides, found.table, found.row, found.column) if found else None


def table_of(sides: Sides, approach: str) -> Value:
    """Return the id of the exhibit that the file names for one of the paper's approaches."""
    found = _approach(sides, approach)
    return found.table if found else None


def _approach(sides: Sides, name: str) -> PaperApproach | None:
    return next((one for one in sides.paper.approaches if one.name == name), None)


def _exhibit(sides: Sides, exhibit: str) -> PaperExhibit:
    return sides.paper.exhibit(exhibit)


# ---- what the load did --------------------------------------------------------------------


def title_of(sides: Sides, approach: str) -> Value:
    """Return an approach's title."""
    return sides.title(approach)


def tpm(sides: Sides, approach: str) -> Value:
    """Return transactions a minute, the median of the repeats."""
    one = sides.summary(approach)
    return one.tpm if one else None


def p95_ms(sides: Sides, approach: str) -> Value:
    """Return the time within which 95 % of the responses came."""
    one = sides.summary(approach)
    return one.p95_ms if one else None


def response_ms(sides: Sides, approach: str) -> Value:
    """Return the mean response time."""
    one = sides.middle(approach)
    return one.latency.mean_ms if one else None


def duration_s(sides: Sides, approach: str) -> Value:
    """Return how long the work took, or how long was measured."""
    one = sides.middle(approach)
    return (one.duration_s or one.measured_s) if one else None


def operation_ms(sides: Sides, approach: str, kind: str) -> Value:
    """Return the mean time of one kind of transaction: the median of attempts that have both."""
    found = [
        {one.transaction: one.mean_ms for one in attempt.by_transaction}
        for attempt in counted_attempts(sides.run, sides.name(approach))
    ]
    times = [one[kind] for one in found if {"array", "flash"} <= one.keys()]
    return statistics.median(times) if times else None


def fact(sides: Sides, approach: str, name: str) -> Value:
    """Return a figure that only this workload has, by its name in the run."""
    one = sides.middle(approach)
    return one.facts.get(name) if one else None


def load(sides: Sides, approach: str, figure: str) -> Value:
    """Return a peak or a mean over time of an attempt (report/paper/load.py)."""
    one = sides.middle(approach)
    if figure not in FIGURES:
        raise LookupError(f"no figure {figure}; there are {', '.join(sorted(FIGURES))}")
    return FIGURES[figure](one, sides.report(approach)) if one else None


# ---- queries of a warehouse ---------------------------------------------------------------


def query_s(sides: Sides, approach: str, query: str) -> Value:
    """Return the elapsed time of a query."""
    one = sides.middle(approach)
    return next((step.elapsed_s for step in one.steps if step.name == query), None) if one else None


def answers(sides: Sides, query: str) -> Value:
    """Return how many different answers attempts at one scale gave; None if one attempt did."""
    return sides.pairs.answers(query)


def parameter(sides: Sides, approach: str, name: str) -> Value:
    """Return a number among the workload's parameters."""
    declared = {one.name: one for one in sides.run.approaches}.get(sides.name(approach))
    return float(sides.pairs.parameter(declared, name)) if declared else None


# ---- reads, the cache, processors, devices ------------------------------------------------


def read_ms(sides: Sides, approach: str) -> Value:
    """Return the mean time of a block's read, from whatever source."""
    one = sides.summary(approach)
    return one.read_ms if one and one.middle.reads.blocks else None


def reads(sides: Sides, approach: str, source: str) -> Value:
    """Return the blocks read: "all", "flash" or "disk"."""
    one = sides.middle(approach)
    if one is None:
        return None
    counts = {"all": one.reads.blocks, "flash": one.reads.flash, "disk": one.reads.disk}
    return _one_of(counts, source, "source")


def reads_per_s(sides: Sides, approach: str) -> Value:
    """Return the blocks read a second."""
    one = sides.middle(approach)
    return one.reads.blocks / max(one.cpu.elapsed_s, 1e-9) if one else None


def hit_ratio(sides: Sides, approach: str) -> Value:
    """Return the flash cache's share of hits."""
    one = sides.summary(approach)
    return one.hit_ratio if one else None


def cached(sides: Sides, approach: str) -> Value:
    """Tell whether an approach has a flash cache."""
    one = sides.summary(approach)
    return one.approach.cache if one else None


def cache_bytes(sides: Sides, approach: str) -> Value:
    """Return the flash cache's size."""
    one = sides.middle(approach)
    return (one.cache.size_bytes or None) if one and one.cache else None


def cache_files(sides: Sides, approach: str) -> Value:
    """Return over how many files the flash cache is spread."""
    one = sides.summary(approach)
    return one.approach.cache_files if one else None


def kept(sides: Sides, approach: str) -> Value:
    """Return the tables whose cache policy is keep."""
    one = sides.summary(approach)
    return ", ".join(one.approach.keep) or None if one else None


def buffers_bytes(sides: Sides, approach: str) -> Value:
    """Return the size of shared_buffers."""
    one, run = sides.summary(approach), sides.run
    changed = one.approach.changes.get("shared_buffers") if one else None
    text = changed or run.parameters.get("shared_buffers") or run.settings.get("shared_buffers", "")
    return parts.memory_bytes(text)


def cpu(sides: Sides, approach: str, part: str) -> Value:
    """Return "user", "system", "driver" or "unused": a share of what other programs left."""
    one = sides.middle(approach)
    return _one_of(host.cpu_shares(one), part, "part") if one and host.cpu_shares(one) else None


def vmstat(sides: Sides, approach: str, column: str) -> Value:
    """Return the mean of a column of vmstat, in its unit: r, b, cs, bi, us."""
    one = sides.middle(approach)
    found = host.vmstat_means(one) if one else {}
    return _one_of(found, column, "column") if found else None


def iostat(sides: Sides, approach: str, device: str, column: str) -> Value:
    """Return a device's mean over an attempt, by a column's name in the table of devices."""
    return parts.number_of(host.iostat_table(sides.middle(approach)), device, column)


def iostat_most(sides: Sides, approach: str, device: str, column: str) -> Value:
    """Return a device's largest second: "bytes_per_s", or the "read_ms" of a second with reads."""
    one = sides.middle(approach)
    if column not in host.LINES:
        raise LookupError(f"no column {column}; there are {', '.join(sorted(host.LINES))}")
    return (
        max((value for _, value in host.LINES[column](one, device)), default=None) if one else None
    )


def profile(sides: Sides, device: str, name: str) -> Value:
    """Return a number in a device's profile."""
    found = next((one for one in sides.run.devices if one.role == device), None)
    text = found.facts.get(name, "") if found else ""
    return float(text) if text.replace(".", "", 1).isdigit() else None


def emulated(sides: Sides) -> Value:
    """Tell whether a device of the run was emulated."""
    return bool(sides.run.emulated_devices)


# ---- the server's reports -----------------------------------------------------------------


def report(sides: Sides, approach: str, table: str, row: str, column: str) -> Value:
    """Return a number in the report on an approach, by the first cell of its row."""
    return parts.number_of(parts.table_of(sides.report(approach), table), row, column)


def report_cell(sides: Sides, approach: str, table: str, column: str, *rows: str) -> Value:
    """Return the cell of a row, or the sum of several rows' cells, with its unit and source."""
    found = parts.table_of(sides.report(approach), table)
    if found is None or column not in (one.name for one in found.columns):
        return None
    place = found.index(column)
    cells = [row.cells[place] for row in found.rows if plain(row.cells[0]) in rows]
    numbers = [cell for cell in cells if isinstance(cell, Number)]
    if len(cells) < 2 or not numbers:
        return cells[0] if cells else None
    return replace(numbers[0], value=sum(cell.value for cell in numbers))


def report_sum(sides: Sides, approach: str, table: str, rows: str, column: str) -> Value:
    """Return the sum of a column's rows whose first cell begins so; None without any."""
    found = parts.table_of(sides.report(approach), table)
    numbers = [
        parts.number_of(found, str(plain(row.cells[0])), column) or 0.0
        for row in (found.rows if found else ())
        if str(plain(row.cells[0])).startswith(rows)
    ]
    return sum(numbers) if numbers else None


def report_top(sides: Sides, approach: str, table: str, column: str, place: float) -> Value:
    """Return the first cell of the row that is first (1), second (2) by a column."""
    found = parts.table_of(sides.report(approach), table)
    if found is None:
        return None
    rows = [row for row in found.rows if row.mark is RowMark.PLAIN]
    rows.sort(key=lambda row: -parts.number_in(row.cells[found.index(column)]))
    return str(plain(rows[int(place) - 1].cells[0])) if len(rows) >= place else None


def event_class(sides: Sides, approach: str) -> Value:
    """Return the wait class of the first event."""
    found = parts.table_of(sides.report(approach), "top-events")
    return str(parts.cut(found, rows=1).values("wait_class")[0]) if found else None


def sessions(sides: Sides, approach: str, *classes: str) -> Value:
    """Return the active sessions of some wait classes over time, added up; without any, of all."""
    table = parts.table_of(sides.report(approach), "aas-over-time")
    shown = parts.sessions_columns(table, classes)
    return sum(sum(values) for values in shown.values()) if shown else None


def oracle(sides: Sides, approach: str, name: str) -> Value:
    """Return a counter of the flash cache by Oracle's name for it."""
    found = parts.table_of(sides.report(approach), "flash-cache")
    if found is None:
        return None
    pairs = zip(found.values("oracle_name"), found.values("total"), strict=True)
    return next((value for one, value in pairs if one == name), None)


# ---- cost ---------------------------------------------------------------------------------


def price(sides: Sides, approach: str) -> Value:
    """Return what an approach's storage costs, at the paper's prices."""
    costs = approach_costs(sides.run, paper_prices(sides.paper.id))
    return next((one.price for one in costs if one.approach.name == sides.name(approach)), None)


def raid5_drives(sides: Sides, device: str) -> Value:
    """Return the fewest of a device's drives that hold as much in RAID 5."""
    found = paper_prices(sides.paper.id).get(device)
    return as_raid5(found).drives if found else None


def raid5_price(sides: Sides, device: str) -> Value:
    """Return what these cost."""
    found = paper_prices(sides.paper.id).get(device)
    return storage_price(as_raid5(found)) if found else None


# ---- numbers ------------------------------------------------------------------------------


def known(_sides: Sides, *_values: Value) -> Value:
    """Tell whether these values exist."""
    return True


def whole(_sides: Sides, value: float) -> Value:
    """Return the nearest whole number."""
    return round(value)


def least(_sides: Sides, *values: float) -> Value:
    """Return the smallest number."""
    return min(values)


def _one_of(found: Mapping[str, Value], name: str, what: str) -> Value:
    if name not in found:
        raise LookupError(f"no {what} {name}; there are {', '.join(found)}")
    return found[name]


FUNCTIONS: dict[str, Callable[..., Value]] = {
    one.__name__: one
    for one in (
        *(said, minutes, average, total, first_word, printed, table_of),
        *(title_of, tpm, p95_ms, response_ms, duration_s, operation_ms, fact, load),
        *(query_s, answers, parameter),
        *(read_ms, reads, reads_per_s, hit_ratio, cached, cache_bytes, cache_files, kept),
        *(buffers_bytes, cpu, vmstat, iostat, iostat_most, profile, emulated),
        *(report, report_cell, report_sum, report_top, event_class, sessions, oracle),
        *(price, raid5_drives, raid5_price, known, whole, least),
    )
}

#: Sets that every run has; an item is its variables.
SETS: dict[str, Callable[[Sides], Iterable[Mapping[str, Value]]]] = {
    "approaches": lambda sides: ({"approach": one.name} for one in sides.run.approaches),
    "measured": lambda sides: ({"approach": name} for name in sides.summaries),
    "printed": lambda sides: (
        {"approach": one.name, "name": one.title, "printed": one.printed}
        for one in sides.paper.approaches
    ),
    "devices": lambda sides: (
        {"device": one.role, "title": one.title, "summary": one.summary}
        for one in sides.run.devices
    ),
    "queries": lambda sides: sides.pairs.queries(),
    "answered": lambda sides: sides.pairs.answered(),
    "degrees": lambda sides: sides.pairs.series("degree"),
    "degree_queries": lambda sides: sides.pairs.series_queries("degree"),
    "scale_factors": lambda sides: sides.pairs.series("scale_factor"),
    "scale_factor_queries": lambda sides: sides.pairs.series_queries("scale_factor"),
}
