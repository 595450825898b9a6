# SPDX-License-Identifier: PostgreSQL
"""The metrics' queries in the formats of the exporters that people run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from definitions import NOTICE, ROOT
from definitions.metric_queries import MetricQuery, flat_queries, metric_queries
from definitions.yaml import yaml_text

#: Copied by make install.
MONITORING = ROOT / "share/pgflash/monitoring"

#: Seconds between two readings by pgwatch and by Debian's prometheus-sql-exporter.
PGWATCH_S = 60
SQL_EXPORTER_S = 15

#: When, as pgwatch wants it.
EPOCH = (
    "(EXTRACT(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000000::numeric)::bigint"
    " AS epoch_ns"
)


def generated() -> dict[Path, str]:
    """Return the exporters' files."""
    files = {
        "postgres_exporter.yaml": (
            "The metrics of pgflash for postgres_exporter: --extend.query-path=FILE.",
            dict(_mapped()),
        ),
        "cloudnative-pg.yaml": (
            "The metrics of pgflash for CloudNativePG: a ConfigMap for customQueriesConfigMap.",
            _config_map(),
        ),
        "sql_exporter.collector.yml": (
            "The metrics of pgflash for burningalchemist/sql_exporter: the collector pgflash.",
            _collector(),
        ),
        "prometheus-sql-exporter.yml": (
            "The metrics of pgflash for justwatchcom/sql_exporter, which is Debian's package\n"
            "# prometheus-sql-exporter. Name the server in connections.",
            _jobs(),
        ),
        "pgwatch.yaml": ("The metrics of pgflash for pgwatch: the preset pgflash.", _pgwatch()),
    }
    return {MONITORING / name: with_head(*file) for name, file in files.items()}


def with_head(says: str, content: dict[str, Any]) -> str:
    """Return a YAML file."""
    return (
        f"# SPDX-License-Identifier: PostgreSQL\n# {says}\n# {NOTICE}\n"
        f"# How to use it: docs/guide/monitoring.md\n{yaml_text(content)}"
    )


def _mapped() -> Iterator[tuple[str, Any]]:
    """Yield queries as postgres_exporter has them, and CloudNativePG after it."""
    for query in metric_queries():
        told = query.arrays() if query.histogram else query
        labels = [
            {name: {"usage": "LABEL", "description": f"The label {name}."}} for name in told.labels
        ]
        values = [
            {
                one.column: {
                    "usage": "HISTOGRAM"
                    if query.histogram
                    else "COUNTER"
                    if one.counts
                    else "GAUGE",
                    "description": one.help,
                }
            }
            for one in query.values
        ]
        yield query.name, {"query": told.sql(), "master": True, "metrics": labels + values}


def _config_map() -> dict[str, Any]:
    # The database app, which CloudNativePG would choose, belongs to a role of that name.
    queries = {
        name: {
            "target_databases": ["postgres"],
            "query": facts["query"],
            "metrics": facts["metrics"],
        }
        for name, facts in _mapped()
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "pgflash-monitoring", "labels": {"cnpg.io/reload": ""}},
        "data": {"queries": yaml_text(queries)},
    }


def _collector() -> dict[str, Any]:
    queries = list(flat_queries())
    return {
        "collector_name": "pgflash",
        "metrics": [
            {
                "metric_name": one.sample,
                "type": "counter" if one.counts else "gauge",
                "help": one.help,
                **({"key_labels": list(query.labels)} if query.labels else {}),
                "values": [one.column],
                "query_ref": query.name,
            }
            for query in queries
            for one in query.values
        ],
        "queries": [{"query_name": query.name, "query": query.sql()} for query in queries],
    }


def _jobs() -> dict[str, Any]:
    return {
        "jobs": [
            {
                "name": "pgflash",
                "interval": f"{SQL_EXPORTER_S}s",
                "connections": ["postgres://watcher@127.0.0.1:5432/postgres?sslmode=prefer"],
                "queries": [_job_query(query) for query in flat_queries()],
            }
        ]
    }


def _job_query(query: MetricQuery) -> dict[str, Any]:
    return {
        "name": query.name,
        "help": " ".join(f"{one.column}: {one.help}" for one in query.values),
        "labels": list(query.labels),
        "values": [one.column for one in query.values],
        "allow_zero_rows": True,
        "query": query.sql(),
    }


def _pgwatch() -> dict[str, Any]:
    queries = list(flat_queries())
    return {
        "metrics": {query.name: _pgwatch_metric(query) for query in queries},
        "presets": {
            "pgflash": {
                "description": "The flash cache, and where reads come from.",
                "metrics": {query.name: PGWATCH_S for query in queries},
            }
        },
    }


def _pgwatch_metric(query: MetricQuery) -> dict[str, Any]:
    gauges = [one.column for one in query.values if not one.counts]
    return {
        "description": " ".join(f"{one.column}: {one.help}" for one in query.values),
        "is_instance_level": True,
        **({"gauges": gauges} if gauges else {}),
        "sqls": {15: query.sql(mark="tag_", last=EPOCH)},
    }
