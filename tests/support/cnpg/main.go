// SPDX-License-Identifier: PostgreSQL

// Run CloudNativePG's own collector over a file of queries, and print the metrics.
//
//	cnpg QUERIES DATA    the server's socket and port are in PGHOST and PGPORT
//
// Only `make monitoring-check` builds it.
package main

import (
	"fmt"
	"os"

	"github.com/cloudnative-pg/cloudnative-pg/pkg/management/postgres"
	"github.com/cloudnative-pg/cloudnative-pg/pkg/management/postgres/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// queries is CloudNativePG's collector for a registry, which wants no result of Collect.
type queries struct {
	*metrics.QueriesCollector
}

func (queries) Describe(chan<- *prometheus.Desc) {}

func (one queries) Collect(channel chan<- prometheus.Metric) {
	must(one.QueriesCollector.Collect(channel))
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	must(err)
	instance := postgres.NewInstance()
	instance.PgData = os.Args[2]
	collector := metrics.NewQueriesCollector("cnpg", instance, "postgres")
	must(collector.ParseQueries(text))
	registry := prometheus.NewRegistry()
	must(registry.Register(queries{collector}))
	families, err := registry.Gather()
	must(err)
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(os.Stdout, family)
		must(err)
	}
}
