# SPDX-License-Identifier: PostgreSQL
"""A paper's page from its file and a run: tables, charts and checks of each exhibit.

Whatever an exhibit asks for may be missing from a run.  A cell is then empty, a check is left out,
and if what the exhibit needs is missing it says so and has neither charts nor checks.
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pgflash.model.awr import AwrReport, Cell, Column, Number, ReportTable, Source, Unit, plain
from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.words import figure, percent, whole
from pgflash.report.printed import parse_time
from pgflash_lab.analyze.cost import approach_costs, cost_table
from pgflash_lab.model import paper as form
from pgflash_lab.model.exhibit import Check, Exhibit, PaperPage
from pgflash_lab.model.formula import Formula
from pgflash_lab.model.run import Run
from pgflash_lab.report.paper import checks, host, parts
from pgflash_lab.report.paper.evaluate import Scope, Sides, check_names


def build_page(paper: form.Paper, run: Run, reports: Mapping[str, AwrReport]) -> PaperPage:
    """Return the page of a paper beside a run; PaperError if its file asks for what is not."""
    check_names(paper, run)
    sides = Sides(paper, run, reports)
    exhibits = [_exhibit(sides, one) for one in paper.exhibits if one.shown]
    says = []
    for number, one in enumerate(paper.says, start=1):
        with _place(sides, f"says {number}"):
            says.append(_sentence(sides, one, exhibits))
    return parts.page_of(paper, run, says=says, exhibits=exhibits)


def _exhibit(sides: Sides, one: form.PaperExhibit) -> Exhibit:
    scope, where = sides.scope(), f'exhibit "{one.id}"'
    missing = one.missing
    with _place(sides, f"{where}, needs"):
        missing = missing or sides.missing(one.needs, one.needs_report)
        for required in one.requires:
            if not missing and required.value.value(scope) in (None, False):
                missing = _say(required.otherwise, scope)
    charts: list[Chart] = []
    found: list[Check] = []
    for number, drawing in enumerate(one.charts, start=1):
        with _place(sides, f"{where}, charts {number}"):
            chart = _chart(scope, drawing)
            if any(value is not None for series in chart.series for value in series.values):
                charts.append(chart)
    for number, rule in enumerate(one.checks, start=1):
        with _place(sides, f"{where}, checks {number}"):
            found += _checks(scope, rule)
    with _place(sides, f"{where}, ours"):
        ours = _table(scope, one, () if missing else charts)
    with _place(sides, f"{where}, derived"):
        derived = one.derived and _grid(scope.of(paper=True), one.derived, f"paper-{one.id}", None)
    return Exhibit(
        id=one.id,
        label=one.label,
        title=one.title,
        paper=derived or one.report_table(),
        ours=ours,
        charts=() if missing else tuple(charts),
        checks=() if missing else tuple(found),
        reason=_say(one.reason, scope),
        missing=missing,
        errata=one.errata,
    )


@contextmanager
def _place(sides: Sides, where: str) -> Iterator[None]:
    """Say where in the paper's file something is wrong."""
    try:
        yield
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise form.PaperError(
            f"paper {sides.paper.id}, {where}: {error.args[0]}", hint=form.HINT
        ) from error


# ---- tables -------------------------------------------------------------------------------


def _table(scope: Scope, one: form.PaperExhibit, charts: Sequence[Chart]) -> ReportTable | None:
    match one.ours:
        case form.Grid() as grid:
            return _grid(scope, grid, one.id, Source.EXACT)
        case form.Matrix() as matrix:
            return _matrix(scope, matrix, one.id)
        case form.Events(approach=name, rows=rows):
            return parts.top_events(scope.sides.report(name), rows=rows)
        case form.Cut() as cut:
            return _cut(scope, cut)
        case form.Host(approach=name):
            return host.vmstat_table(scope.sides.middle(name))
        case form.Devices(approach=name):
            return host.iostat_table(scope.sides.middle(name))
        case form.Points(unit=unit):
            return host.lines_table(one.id, charts[0], unit) if charts else None
        case form.Costs(paper=formula):
            return _costs(scope, formula)
        case _:
            return None


def _grid(
    scope: Scope, grid: form.Grid, table_id: str, source: Source | None
) -> ReportTable | None:
    items = list(scope.items(grid.each))
    rows = [[_cell(item, column) for column in grid.columns] for item in items]
    if not _has_values(rows):
        return None
    if grid.total:
        rows.append([_total(scope, grid, column, cells) for column, *cells in _columns(grid, rows)])
    modelled = bool(grid.modelled and grid.modelled.value(scope))
    return parts.figures_table(
        grid.id or table_id,
        _say(grid.title, _with(scope, grid.values)),
        [(one.name, one.title, one.unit) for one in grid.columns],
        rows,
        source=Source.MODELLED if modelled else source,
        note=_say(grid.note, scope) if modelled or grid.modelled is None else "",
    )


def _has_values(rows: Sequence[Sequence[Cell]]) -> bool:
    """Tell whether a table of ours has anything to show."""
    return any(cell is not None for row in rows for cell in row[1:])


def _columns(grid: form.Grid, rows: Sequence[Sequence[Cell]]) -> Iterator[tuple[Any, ...]]:
    return zip(grid.columns, *rows, strict=True)


def _cell(item: Scope, column: form.GridColumn) -> Cell:
    if column.value is not None:
        found: Cell = column.value.value(item)
        return found
    return _say(column.text, item) or None


def _total(scope: Scope, grid: form.Grid, column: form.GridColumn, cells: Sequence[Cell]) -> Cell:
    """Return a column's cell in the last row: its own formula, else the sum."""
    if column.total is not None:
        found: Cell = column.total.value(scope)
        return found
    if column.text:
        return grid.total
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    return sum(numbers) if len(numbers) == len(cells) else None


def _matrix(scope: Scope, matrix: form.Matrix, table_id: str) -> ReportTable | None:
    across = list(scope.items(matrix.across))
    listed = "; ".join(_say(matrix.item, item) for item in across)
    rows = [(row.text, *(_number(item, row) for item in across)) for row in matrix.rows]
    if not _has_values(rows):
        return None
    return parts.figures_table(
        matrix.id or table_id,
        matrix.title,
        [
            (matrix.key, matrix.head, Unit.TEXT),
            *((_say(matrix.name, item), _say(matrix.column, item), Unit.COUNT) for item in across),
        ],
        rows,
        source=None,
        note=_say(matrix.note, scope.having({"items": listed})),
    )


def _number(item: Scope, row: form.MatrixRow) -> Cell:
    found: Cell = row.value.value(item)
    if row.unit is None or not isinstance(found, int | float):
        return found
    modelled = row.modelled is not None and row.modelled.value(item)
    source = Source.MODELLED if modelled else Source.EXACT
    return Number(value=found, unit=row.unit, source=source)


def _cut(scope: Scope, cut: form.Cut) -> ReportTable | None:
    """Return part of a report's table."""
    table = parts.table_of(scope.sides.report(cut.approach), cut.table)
    if table is None:
        return None
    found = parts.cut(table, columns=cut.columns)
    if cut.having:
        place = found.index(cut.having)
        rows = tuple(row for row in found.rows if plain(row.cells[place]))
        found = replace(found, rows=rows, key=(cut.having,))
    return replace(found, title=cut.title or found.title)


def _costs(scope: Scope, formula: Formula) -> ReportTable:
    """Return the costs of storage, with the paper's ratios in a column of their own."""
    sides = scope.sides
    costs = approach_costs(sides.run, form.paper_prices(sides.paper.id))
    table = cost_table(costs)
    place = table.index("times") + 1
    added = Column(
        name="paper_times",
        title="In the paper",
        unit=Unit.RATIO,
        source=Source.MODELLED,
        note="its prices over its own throughput, as a multiple of its baseline's",
    )
    of_paper = scope.of(paper=True)
    said = [formula.value(of_paper.having({"approach": one.approach.name})) for one in costs]
    return replace(
        table,
        columns=(*table.columns[:place], added, *table.columns[place:]),
        rows=tuple(
            replace(row, cells=(*row.cells[:place], one, *row.cells[place:]))
            for row, one in zip(table.rows, said, strict=True)
        ),
    )


# ---- charts -------------------------------------------------------------------------------


def _chart(scope: Scope, drawing: form.Drawing) -> Chart:
    match drawing.form:
        case ChartForm.LINES:
            return _lines(scope, drawing)
        case ChartForm.STACKED:
            return _areas(scope, drawing)
    items = [_with(item, drawing.values) for item in scope.items(drawing.each)]
    series = list(drawing.series)
    if drawing.both is not None:
        series.append(form.Series(name="paper", value=drawing.both, paper=True))
        series.append(form.Series(name="here", value=drawing.both))
    return Chart(
        form=drawing.form,
        title=drawing.title,
        unit=drawing.unit,
        labels=tuple(_say(drawing.label, item) for item in items),
        series=tuple(
            ChartSeries(
                name=one.name,
                values=tuple(one.value.value(item.of(paper=one.paper)) for item in items),
                of_others=one.paper,
            )
            for one in series
        ),
    )


def _lines(scope: Scope, drawing: form.Drawing) -> Chart:
    """Return what approaches' attempts did second by second, each at its own device."""
    if drawing.line not in host.LINES:
        raise LookupError(f"no line {drawing.line}; there are {', '.join(host.LINES)}")
    points = {}
    for item in scope.items(drawing.each):
        attempt = scope.sides.middle(str(item.variables["approach"]))
        if attempt is not None:
            device = _say(drawing.device, item)
            points[_say(drawing.label, item)] = host.LINES[drawing.line](attempt, device)
    if len(points) == 1:
        return host.line_chart(drawing.title, drawing.unit, *points.popitem())
    return host.lines_chart(drawing.title, drawing.unit, points)


def _areas(scope: Scope, drawing: form.Drawing) -> Chart:
    """Return the sessions in a report's table over time."""
    table = parts.table_of(scope.sides.report(drawing.approach), drawing.table)
    shown = parts.sessions_columns(table)
    moments = [parse_time(str(cell)) for cell in table.values("at")] if table else []
    begins = [one.timestamp() if one else 0.0 for one in moments]
    lasting = table.values("elapsed_s") if table else ()
    return Chart(
        form=ChartForm.STACKED,
        title=drawing.title,
        unit=drawing.unit,
        at_s=tuple(begin - begins[0] for begin in begins),
        lasting_s=tuple(parts.number_in(cell) for cell in lasting),
        series=tuple(
            ChartSeries(name=title, values=values) for title, values in shown.items() if sum(values)
        ),
    )


# ---- checks -------------------------------------------------------------------------------


def _checks(scope: Scope, rule: form.CheckRule) -> Iterator[Check]:
    """Yield the checks for which both sides have figures."""
    for item in scope.items(rule.each) if rule.each else (scope,):
        found = _check(_with(item, rule.values, rule.paper_values), rule)
        if found is not None:
            yield found


def _check(scope: Scope, rule: form.CheckRule) -> Check | None:
    theirs = scope.of(paper=True)
    match rule:
        case form.Within(what=what, paper=paper, ours=ours, both=both):
            return checks.within(
                _say(what, scope),
                paper=_one(paper or both, theirs),
                ours=_one(ours or both, scope),
                unit=rule.unit,
                factor=rule.factor,
            )
        case form.Direction(what=what, paper=paper_pair, ours=our_pair, both=pair):
            return checks.same_direction(
                _say(what, scope),
                paper=_two(paper_pair or pair, theirs),
                ours=_two(our_pair or pair, scope),
                unit=rule.unit,
            )
        case form.Order(what=what, paper=paper, ours=ours, both=both):
            return checks.same_order(
                _say(what, scope),
                paper=_by_label(rule, paper or both, theirs),
                ours=_by_label(rule, ours or both, scope),
                sign=rule.sign,
            )
        case form.First(what=what, paper=paper, ours=ours, both=both):
            return checks.same_first(
                _say(what, scope),
                paper=_word(paper or both, theirs),
                ours=_word(ours or both, scope),
            )
        case form.Holds(when=when):
            holds = when.value(scope)
            said = rule.yes if holds else rule.no
            return None if holds is None else Check(holds=bool(holds), says=_say(said, scope))
        case form.Every():
            return _every(scope, rule)


def _every(scope: Scope, rule: form.Every) -> Check | None:
    answers = [(rule.when.value(item), item) for item in scope.items(rule.of)]
    known = [(holds, item) for holds, item in answers if holds is not None]
    denied = [_say(rule.label, item) for holds, item in known if not holds]
    if not known or not (denied or rule.yes):
        return None
    said = rule.no if denied else rule.yes
    says = _say(said, scope.having({"names": ", ".join(denied)}))
    return Check(holds=not denied, says=says)


def _one(formula: Formula | None, scope: Scope) -> float | None:
    found = formula.value(scope) if formula else None
    return None if found is None else float(found)


def _two(pair: tuple[Formula, Formula] | None, scope: Scope) -> tuple[float | None, float | None]:
    return (_one(pair[0], scope), _one(pair[1], scope)) if pair else (None, None)


def _word(formula: Formula | None, scope: Scope) -> str | None:
    found = formula.value(scope) if formula else None
    if isinstance(found, bool):
        return "yes" if found else "no"
    return None if found is None else str(found)


def _by_label(rule: form.Order, formula: Formula | None, scope: Scope) -> dict[str, float]:
    found = ((_say(rule.label, item), _one(formula, item)) for item in scope.items(rule.of))
    return {label: number for label, number in found if number is not None}


# ---- sentences ----------------------------------------------------------------------------


def _sentence(sides: Sides, one: form.Sentence, exhibits: Sequence[Exhibit]) -> str:
    """Return one of the page's first sentences; "" if there is nothing to say."""
    scope = sides.scope()
    if one.of_check:
        found = {exhibit.id: exhibit.checks for exhibit in exhibits}
        if one.of_check not in found:
            raise LookupError(f"no exhibit {one.of_check}; there are {', '.join(found)}")
        return "".join(check.says for check in found[one.of_check][:1])
    if one.only is not None and not one.only.value(scope):
        return one.otherwise
    listed = []
    for item in scope.items(one.of) if one.of else ():
        valued = _with(item, one.item_values, one.item_paper_values)
        if None not in valued.variables.values():
            listed.append(_say(one.item, valued))
    if one.of and not listed:
        return one.otherwise
    scope = _with(scope, one.values, one.paper_values)
    return _say(one.text, scope.having({"items": ", ".join(listed)}))


def _with(
    scope: Scope, values: Mapping[str, Formula], paper_values: Mapping[str, Formula] | None = None
) -> Scope:
    """Return the scope with the values of formulas as variables; each sees those before it."""
    for name, formula in values.items():
        scope = scope.having({name: formula.value(scope)})
    for name, formula in (paper_values or {}).items():
        scope = scope.having({name: formula.value(scope.of(paper=True))})
    return scope


_PRINTERS = {"figure": figure, "percent": percent, "whole": whole}


class _Texts(string.Formatter):
    """Texts with variables: {ratio:figure}, {share:percent}, {rows:whole} as in our tables."""

    def get_field(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
        if name not in kwargs:
            raise LookupError(f"no variable {name}; there are {', '.join(sorted(kwargs))}")
        return kwargs[name], name

    def format_field(self, value: Any, spec: str) -> str:  # noqa: ANN401 - a variable
        if value is None:
            return "–"
        if spec in _PRINTERS:
            return _PRINTERS[spec](value)
        if spec == "lower":
            return str(value).lower()
        return format(value, spec)


def _say(text: str, scope: Scope) -> str:
    """Return a text with the values of its variables."""
    return _Texts().vformat(text, (), scope.variables)
