# SPDX-License-Identifier: PostgreSQL
"""The queries by which other exporters read the metrics of pgflash serve.

A query has columns that are labels and columns that are values.  A histogram is an array of its
ranges for postgres_exporter and CloudNativePG, and a row for each range for the others, which know
counters and gauges alone.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from definitions import DEFINITIONS
from definitions.metrics import metrics
from definitions.views import views

#: What a metric's samples end in.
SUFFIXES = {"counter": "_total", "info": "_info"}

#: The ranges of a histogram end at 2^10 ns, about a microsecond, up to 2^34 ns, about 17 seconds.
BOUNDS = (10, 34)
_NS_OF_S = "1000000000::double precision"
_NS_OF_US = _MS_OF_S = "1000::double precision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A column that is the value of a metric's samples."""

    column: str
    #: The samples' name.
    sample: str
    kind: str
    help: str
    sql: str = ""

    @property
    def counts(self) -> bool:
        """Whether it only grows."""
        return self.kind in ("counter", "histogram")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery:
    """A query: the columns that are labels, those that are values, and where they come from."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    rows: str = ""
    times: str = ""
    waited: str = ""
    values: tuple[Value, ...] = ()

    @property
    def histogram(self) -> bool:
        """Whether it is that of a histogram."""
        return bool(self.times)

    def sql(self, *, mark: str = "", last: str = "") -> str:
        """Return the statement; MARK precedes the names of labels, LAST follows the columns."""
        columns = [f"{sql} AS {mark}{name}" for name, sql in self.labels.items()]
        columns += [f"{value.sql} AS {value.column}" for value in self.values]
        return f"SELECT {_listed([*columns, *([last] if last else [])])}\n{self.rows.strip()}\n"

    def arrays(self) -> "MetricQuery":
        """Return the query of a histogram with one row for all of its ranges."""
        (value,) = self.values
        name = value.column
        ordered = "ORDER BY k.le"
        columns = {
            name: f"pg_catalog.array_agg(k.le {ordered})",
            f"{name}_bucket": f"pg_catalog.array_agg(k.calls {ordered})",
            f"{name}_sum": "pg_catalog.max(k.waited)",
            f"{name}_count": "pg_catalog.max(k.total)",
        }
        group = f"GROUP BY {_listed([f'k.{label}' for label in self.labels])}\n"
        return replace(
            self,
            times="",
            labels={label: f"k.{label}" for label in self.labels},
            rows=f"FROM (\n{_indented(self._ranges())}) k\n{group if self.labels else ''}",
            values=tuple(replace(value, column=name, sql=sql) for name, sql in columns.items()),
        )

    def flat(self) -> tuple["MetricQuery", ...]:
        """Return queries of counters and gauges that have the same samples."""
        if not self.histogram:
            return (self,)
        (value,) = self.values
        arrays = self.arrays()
        sums = replace(
            arrays,
            values=tuple(
                replace(one, kind="counter", sample=f"{self.name}_{one.column}")
                for one in arrays.values
                if one.column.endswith(("_sum", "_count"))
            ),
        )
        names = ", ".join(f"k.{label}" for label in self.labels)
        first = f"{names}, " if names else ""
        ends = f"SELECT {first}k.le::pg_catalog.text AS le, k.calls FROM k"
        all_of_them = f"SELECT DISTINCT {first}'+Inf'::pg_catalog.text, k.total FROM k"
        buckets = replace(
            self,
            name=value.sample,
            times="",
            labels={**{label: f"r.{label}" for label in self.labels}, "le": "r.le"},
            rows=(
                f"FROM (\n  WITH k AS (\n{_indented(_indented(self._ranges()))}  )\n"
                f"  {ends}\n  UNION ALL {all_of_them}\n) r\n"
            ),
            values=(
                replace(
                    value,
                    column="bucket",
                    sample=f"{value.sample}_bucket",
                    kind="counter",
                    sql="r.calls",
                ),
            ),
        )
        return sums, buckets

    def _ranges(self) -> str:
        """Return the statement that has a row for the end of each range: calls up to there."""
        same = [f"t.{label} OPERATOR(pg_catalog.=) w.{label}" for label in self.labels]
        columns = [
            *(f"{sql} AS {label}" for label, sql in self.labels.items()),
            f"b.ns OPERATOR(pg_catalog./) {_NS_OF_S} AS le",
            f"COALESCE(pg_catalog.sum(t.calls) FILTER (WHERE t.upper_us OPERATOR(pg_catalog.<=)"
            f" (b.ns OPERATOR(pg_catalog./) {_NS_OF_US})), 0::numeric)::bigint AS calls",
            "pg_catalog.sum(t.calls)::bigint AS total",
            f"pg_catalog.max(w.ms) OPERATOR(pg_catalog./) {_MS_OF_S} AS waited",
        ]
        bounds = "pg_catalog.power(2::double precision, n::double precision) AS ns"
        first, last = BOUNDS
        return (
            f"SELECT {_listed(columns)}\n"
            f"FROM (\n{_indented(self.waited)}) w\n"
            f"JOIN (\n{_indented(self.times)}) t ON {' AND '.join(same) or 'true'}\n"
            f"CROSS JOIN (\n"
            f"  SELECT {bounds} FROM pg_catalog.generate_series({first}, {last}) AS n\n) b\n"
            f"GROUP BY {_listed([*self.labels.values(), 'b.ns'])}\n"
        )


def _listed(columns: list[str]) -> str:
    """Return columns in one line if they are short, else one in each line."""
    short = ", ".join(columns)
    return short if len(short) <= 80 and "\n" not in short else ",\n  ".join(columns)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.strip("\n").split("\n"))


@cache
def metric_queries(schema: str = "public") -> tuple[MetricQuery, ...]:
    """Return all queries, for an extension in this schema."""
    declared = tomllib.loads((DEFINITIONS / "metric_queries.toml").read_text())
    for facts in declared.values():
        if "like" in facts:
            facts |= declared[facts.pop("like")]
    queries = {
        name: MetricQuery(
            name=name,
            **{
                key: text.replace("{schema}", schema).strip("\n") if key != "labels" else text
                for key, text in facts.items()
            },
        )
        for name, facts in declared.items()
    }
    values: dict[str, list[Value]] = {name: [] for name in queries}
    for name, facts in metrics().items():
        if "columns" in facts:
            query = _of_columns(name, facts, schema)
            queries[query.name], values[query.name] = query, list(query.values)
        elif "without" not in facts:
            sample = name + SUFFIXES.get(facts["kind"], "")
            key = _query_of(sample, facts, queries)
            values[key].append(_value(sample, key, facts))
    return tuple(replace(query, values=tuple(values[name])) for name, query in queries.items())


def _query_of(sample: str, facts: Mapping[str, Any], queries: Mapping[str, MetricQuery]) -> str:
    """Return the name of the query to which a metric belongs."""
    found = [
        name
        for name, query in queries.items()
        if sample.startswith(f"{name}_")
        and query.histogram == (facts["kind"] == "histogram")
        and set(query.labels) == set(facts.get("labels", ()))
    ]
    if not found:
        raise ValueError(f"no query in metric_queries.toml has the rows of {sample}")
    return max(found, key=len)


def _value(sample: str, query: str, facts: Mapping[str, Any]) -> Value:
    column = facts.get("column")
    return Value(
        column=sample.removeprefix(f"{query}_"),
        sample=sample,
        kind=facts["kind"],
        help=facts["help"],
        sql=f"c.{column}" if column else facts.get("value", ""),
    )


def columns_of_metric(prefix: str) -> dict[str, str]:
    """Return the columns of pgflash_cache that begin so, by what a label calls them."""
    names = [one.name for one in views()["pgflash_cache"].columns if one.name.startswith(prefix)]
    return {name.removeprefix(prefix).replace("_", " "): name for name in names}


def _of_columns(name: str, facts: Mapping[str, Any], schema: str) -> MetricQuery:
    """Return the query of a metric that has a point for each of several columns."""
    (label,) = facts["labels"]
    points = ",\n  ".join(
        f"('{word}'::pg_catalog.text, c.{column})"
        for word, column in columns_of_metric(facts["columns"]).items()
    )
    return MetricQuery(
        name=name,
        labels={label: f"p.{label}"},
        rows=(
            f"FROM {schema}.pgflash_cache c\n"
            f"CROSS JOIN LATERAL (VALUES\n  {points}\n) AS p ({label}, blocks)\n"
        ),
        values=(_value(f"{name}_total", name, {**facts, "value": "p.blocks"}),),
    )


def flat_queries(schema: str = "public") -> Iterator[MetricQuery]:
    """Yield all queries as tables of counters and gauges."""
    for query in metric_queries(schema):
        yield from query.flat()
