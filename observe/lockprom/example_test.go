package lockprom_test

import (
	"log"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/observe/lockprom"
)

func ExampleMetrics() {
	metrics := lockprom.New()
	prometheus.MustRegister(metrics)
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Observe(metrics.Observer()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	http.Handle("/metrics", promhttp.Handler())
}

// Locks are named "orders:42", and only "orders" is to be a label.
func ExampleNames() {
	options := []lockprom.Option{lockprom.Names(func(name string) string {
		group, _, _ := strings.Cut(name, ":")
		return group
	})}
	prometheus.MustRegister(lockprom.New(options...))
}

// Each client has metrics of its own.
func ExampleMetrics_severalClients() {
	for name, dsn := range map[string]string{"jobs": "redis://jobs:6379", "sessions": "redis://sessions:6379"} {
		metrics := lockprom.New()
		prometheus.WrapRegistererWith(prometheus.Labels{"client": name}, prometheus.DefaultRegisterer).MustRegister(metrics)
		client, err := locker.Open("goredis", dsn, locker.Observe(metrics.Observer()))
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
	}
}
