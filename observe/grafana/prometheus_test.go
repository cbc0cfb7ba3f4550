package grafana

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
)

// envRequire, set to 1, makes a missing prometheus a failure instead of a skip.
const envRequire = "REQUIRE_PROMETHEUS"

// A prom is a running Prometheus that scrapes one target.
type prom struct{ url string }

// installed is where a program of Prometheus is; without it the test is skipped, or fails.
func installed(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv(envRequire) == "1" {
			t.Fatal("there is no ", program, ", and ", envRequire, " is 1")
		}
		t.Skip("there is no ", program, "; on Debian: apt-get install prometheus")
	}
	return path
}

// scrapes starts a Prometheus that scrapes collector every half a second, and has our alerts.
func scrapes(t *testing.T, collector prometheus.Collector) *prom {
	t.Helper()
	program := installed(t, "prometheus")
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	target := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(target.Close)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	dir := t.TempDir()
	alerts, err := filepath.Abs("alerts.yml")
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"global: {scrape_interval: 500ms, evaluation_interval: 500ms}\nrule_files: [%q]\nscrape_configs: [{job_name: golocker, static_configs: [{targets: [%q]}]}]\n",
		alerts, strings.TrimPrefix(target.URL, "http://")), 0o600))
	var log bytes.Buffer
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	p := &prom{"http://" + address}
	require.Eventually(t, func() bool {
		resp, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond)
	return p
}

// get calls the API.
func (p *prom) get(ctx context.Context, call string, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/"+call, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", call, answer.Error)
	}
	return nil
}

// value is the largest number that a query gives now; ok is false if it gives none.
func (p *prom) value(ctx context.Context, query string) (largest float64, ok bool, err error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := p.get(ctx, "query?query="+url.QueryEscape(query), &data); err != nil {
		return 0, false, err
	}
	largest = math.Inf(-1)
	for _, series := range data.Result {
		text, _ := series.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
			largest, ok = max(largest, v), true
		}
	}
	return largest, ok, nil
}

// asGrafanaDoes puts values in the place of the variables.
var asGrafanaDoes = strings.NewReplacer("$__rate_interval", "10s", "$__range", "60s", "$instance", ".*")

// Every query of the dashboard has an answer when locks are taken, contended, renewed and
// lost, and the alerts that need not last fire.
func TestEveryPanelShowsSomething(t *testing.T) {
	work := newWorkload(t)
	p := scrapes(t, work.metrics)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := work.start(ctx)
	open := load(t).queries()
	for _, alert := range []string{"LockLost", "LockServerInDanger"} {
		open[alert] = `ALERTS{alertname="` + alert + `",alertstate="firing"}`
	}
	for len(open) > 0 {
		select {
		case <-time.After(500 * time.Millisecond): // the interval of the scrapes
		case <-ctx.Done():
			require.Empty(t, open, "these queries have no answer")
		}
		for name, query := range open {
			v, ok, err := p.value(ctx, asGrafanaDoes.Replace(query))
			require.NoError(t, err, name)
			// An increase that is 0 may mean that there was none yet.
			if ok && (v > 0 || !strings.Contains(query, "increase") && !strings.Contains(query, "warning")) {
				delete(open, name)
			}
		}
	}
	p.checkAlerts(t)
	cancel()
	<-done
}

// checkAlerts has Prometheus say that it could evaluate all alerts.
func (p *prom) checkAlerts(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	require.NoError(t, p.get(t.Context(), "rules?type=alert", &data))
	require.Len(t, data.Groups, 1)
	require.Len(t, data.Groups[0].Rules, 10)
	for _, r := range data.Groups[0].Rules {
		require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
	}
}
