# SPDX-License-Identifier: PostgreSQL
"""Every exporter has every metric, under its name or as near to it as the exporter allows."""

import re
from collections.abc import Iterator

import pytest

from definitions.exporters import MONITORING, generated
from definitions.metric_queries import columns_of_metric, flat_queries, metric_queries
from definitions.metrics import metrics
from pgflash.web.metrics import METRICS
from tidy import _SQL_APART, _SQL_LEFT_OPEN

#: The samples' names in /metrics, as its own code ends them.
ENDS = {"counter": "_total", "info": "_info"}


def samples() -> Iterator[str]:
    """Yield the names of samples that /metrics has and other exporters should."""
    for metric in METRICS:
        if "without" not in metrics()[metric.name]:
            if metric.kind == "histogram":
                yield from (f"{metric.name}{end}" for end in ("_bucket", "_sum", "_count"))
            else:
                yield metric.name + ENDS.get(metric.kind, "")


def test_the_queries_have_every_metric_and_no_other() -> None:
    found = [value.sample for query in flat_queries() for value in query.values]
    assert sorted(found) == sorted(samples())
    for query in flat_queries():
        for value in query.values:
            assert value.sample == f"{query.name}_{value.column}"


def test_a_metric_that_exporters_lack_says_why() -> None:
    for name, facts in metrics().items():
        told = [key for key in ("value", "columns", "column", "without") if key in facts]
        assert len(told) == (0 if facts["kind"] == "histogram" else 1), name


def text(name: str) -> str:
    found = (MONITORING / name).read_text()
    assert found == generated()[MONITORING / name]
    return found


def test_names_are_those_of_the_metrics_where_the_exporter_allows_it() -> None:
    named = re.findall(r'metric_name: "(\w+)"', text("sql_exporter.collector.yml"))
    assert sorted(named) == sorted(samples())
    # Of these, the name is that of the query and of the column, for CloudNativePG behind cnpg_.
    for name, begin in {"postgres_exporter.yaml": "", "cloudnative-pg.yaml": " {4}"}.items():
        queries = re.split(rf"^{begin}(?=pgflash\w*:$)", text(name), flags=re.MULTILINE)[1:]
        found = set()
        for query in queries:
            columns = re.findall(r'- (\w+):\n +usage: "(?:COUNTER|GAUGE|HISTOGRAM)"', query)
            found |= {f"{query.partition(':')[0]}_{column}" for column in columns}
        assert found == {re.sub("(seconds)_(bucket|sum|count)$", r"\1", one) for one in samples()}


@pytest.mark.parametrize("mark", ["", "tag_"])
def test_a_query_leaves_nothing_to_be_found_in_anybodys_schema(mark: str) -> None:
    for query in (*metric_queries(), *flat_queries()):
        told = query.arrays() if query.histogram else query
        sql = _SQL_APART.sub("", told.sql(mark=mark))
        # Names after AS are declared here, as are those of tables; VALUES is grammar.
        sql = re.sub(r"\bAS \w+ \(\w+, \w+\)|\bAS \w+ \(\w+\)|\bCOALESCE\(|\bVALUES\b", "", sql)
        sql = re.sub(r"\b(?:FILTER|LATERAL|JOIN|FROM|WITH k AS|ON) \(", "", sql)
        for what, pattern in _SQL_LEFT_OPEN.items():
            found = pattern.search(sql)
            assert found is None, (what, query.name, found)
        # These types are grammar; a domain of anybody's could be called text.
        types = set(re.findall(r"::([\w.]+)", told.sql(mark=mark)))
        assert types <= {"bigint", "integer", "double", "numeric"} | {
            f"pg_catalog.{name}" for name in ("text", "name")
        }
        for name in re.findall(r"\b(?:FROM|JOIN) ([a-z_.]+)", sql):
            assert name == "k" or name.startswith(("pg_catalog.", "public.pgflash_"))


def test_the_columns_of_a_label_are_those_that_begin_so() -> None:
    assert columns_of_metric("eviction_") == {
        "invalidated": "eviction_invalidated",
        "aged out": "eviction_aged_out",
        "buffer pinned": "eviction_buffer_pinned",
    }
