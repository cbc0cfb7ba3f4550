package grafana

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/observe/lockprom"
)

//go:embed golocker.json
var source []byte

// A dashboard is the part of Grafana's model that the tests look at.
type dashboard struct {
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
			AllValue   string `json:"allValue"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int    `json:"id"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Type        string `json:"type"`
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct {
		RefID string `json:"refId"`
		Expr  string `json:"expr"`
	} `json:"targets"`
}

func load(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	require.NoError(t, json.Unmarshal(source, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// queries are those of all panels, by panel and reference.
func (d dashboard) queries() map[string]string {
	all := map[string]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[p.Title+" "+target.RefID] = target.Expr
		}
	}
	return all
}

func TestPanelsAreInOrder(t *testing.T) {
	d := load(t)
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], "id %d is used twice", p.ID)
		ids[p.ID] = true
		assert.NotEmpty(t, p.Description, p.Title)
		assert.NotEmpty(t, p.Targets, p.Title)
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				assert.Empty(t, cells[at], "%s overlaps", p.Title)
				cells[at] = p.Title
			}
		}
	}
}

var (
	metricName  = regexp.MustCompile(`golocker_[a-z_]+`)
	description = regexp.MustCompile(`fqName: "([a-z_]+)"`)
)

// What the dashboard asks for is there, and what is there is shown.
func TestDashboardKnowsAllMetrics(t *testing.T) {
	shown := map[string]bool{}
	for _, query := range load(t).queries() {
		for _, name := range metricName.FindAllString(query, -1) {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				name = strings.TrimSuffix(name, suffix)
			}
			shown[name] = true
		}
	}
	descs := make(chan *prometheus.Desc, 100)
	lockprom.New().Describe(descs)
	close(descs)
	made := map[string]bool{}
	for desc := range descs {
		made[description.FindStringSubmatch(desc.String())[1]] = true
	}
	assert.Equal(t, made, shown)
}
