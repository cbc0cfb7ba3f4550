package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/lockdebug"
)

func TestWorkIsShown(t *testing.T) {
	client, err := locker.Open("goredis", "redis://"+miniredis.RunT(t).Addr())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, work(t.Context(), client))
	assert.Eventually(t, func() bool {
		w := httptest.NewRecorder()
		lockdebug.Handler(client).ServeHTTP(w, httptest.NewRequest("GET", "/?format=json", nil))
		var r lockdebug.Report
		return json.Unmarshal(w.Body.Bytes(), &r) == nil && len(r.Clients[0].Leases) == 6 && len(r.Clients[0].Waiters) == 4
	}, time.Minute, time.Millisecond)
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, "127.0.0.1:0") }()
	cancel()
	<-ended
}
