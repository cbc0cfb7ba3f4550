package grafana

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What they say to some courses of the metrics stands in alerts_test.yml.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	said, err := exec.CommandContext(t.Context(), installed(t, "promtool"), "test", "rules", "alerts_test.yml").CombinedOutput()
	require.NoError(t, err, "%s", said)
}

var alertName = regexp.MustCompile(`alert: (\w+)`)

func TestEveryAlertIsTestedAndDocumented(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	alerts := alertName.FindAllStringSubmatch(read("alerts.yml"), -1)
	require.NotEmpty(t, alerts)
	tests, document := read("alerts_test.yml"), read("../../docs/observability.md")
	for _, alert := range alerts {
		assert.Contains(t, tests, `alertname="`+alert[1]+`"`)
		assert.Contains(t, document, "| `"+alert[1]+"` |")
	}
}
