package grafana_test

import (
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/observe/lockprom"
)

// What the dashboard shows: golocker.json is imported into Grafana, and Prometheus scrapes
// this.
func Example() {
	metrics := lockprom.New()
	prometheus.MustRegister(metrics)
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Observe(metrics.Observer()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	http.Handle("/metrics", promhttp.Handler())
	log.Print(http.ListenAndServe(":9100", nil))
}
