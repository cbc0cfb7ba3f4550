package harness

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuantilesAreWithinOnePercent(t *testing.T) {
	var h Hist
	var samples []int64
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		ns := int64(random.ExpFloat64() * float64(time.Millisecond))
		samples = append(samples, ns)
		h.Record(ns)
	}
	slices.Sort(samples)
	for _, q := range []float64{0, .01, .5, .9, .99, .999} {
		want := samples[int(q*float64(len(samples)))]
		assert.InEpsilon(t, float64(want)+1, float64(h.Quantile(q))+1, .01, "quantile %v", q)
	}
	assert.Equal(t, samples[len(samples)-1], h.Max())
	assert.Equal(t, h.Max(), h.Quantile(1))
	assert.EqualValues(t, len(samples), h.Count())
}

func TestHistogramOfNothing(t *testing.T) {
	var h Hist
	assert.Zero(t, h.Quantile(.5))
	assert.Zero(t, h.Max())
}

func TestBucketsAreInOrderAndHoldTheirMiddle(t *testing.T) {
	for i := range octaves * sub {
		assert.Equal(t, i, bucket(middle(i)))
	}
	assert.Equal(t, 0, bucket(-5), "a clock error must not be an index")
	assert.Equal(t, octaves*sub-1, bucket(1<<62))
}

func TestMergedHistogramsAreOne(t *testing.T) {
	var a, b, both Hist
	for ns := range int64(1000) {
		a.Record(ns)
		b.Record(ns * ns)
		both.Record(ns)
		both.Record(ns * ns)
	}
	a.Merge(&b)
	assert.Equal(t, both, a)
}

func TestHistogramSurvivesTheWire(t *testing.T) {
	var sent, received Hist
	for ns := range int64(1000) {
		sent.Record(ns * ns)
	}
	b, err := json.Marshal(&sent)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &received))
	assert.Equal(t, sent, received)
}

func TestJain(t *testing.T) {
	assert.InDelta(t, 1, Jain([]float64{5, 5, 5, 5}), 1e-9)
	assert.InDelta(t, 0.25, Jain([]float64{8, 0, 0, 0}), 1e-9)
	assert.InDelta(t, 0.9, Jain([]float64{1, 2}), 1e-9)
	assert.Zero(t, Jain([]float64{0, 0}), "nobody got anything")
}
