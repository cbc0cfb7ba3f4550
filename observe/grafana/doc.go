// Package grafana has a dashboard for the metrics of package lockprom, golocker.json, to be
// imported into Grafana 10 or later, and alerts.yml, rules for Prometheus. Its tests run the
// queries of all panels against a Prometheus that has scraped a client at work, and have
// promtool say when each alert fires.
package grafana
