package fencing

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
)

// An objectServer behaves like S3 as far as conditional writes go.
type objectServer struct {
	mu      sync.Mutex
	objects map[string]object
	version int
	// beforePut runs once before a write is decided on.
	beforePut func()
}

type object struct {
	body, etag, fence string
}

func newBucket(t *testing.T) (*objectServer, *Bucket) {
	s := &objectServer{objects: map[string]object{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &Bucket{Client: server.Client(), URL: server.URL}
}

func (s *objectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPut && s.beforePut != nil {
		f := s.beforePut
		s.beforePut = nil
		f()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, exists := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", o.etag)
		w.Header().Set(fenceHeader, o.fence)
		_, _ = io.WriteString(w, o.body)
	case r.Header.Get("If-None-Match") == "*" && exists, r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != o.etag:
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		s.version++
		s.objects[r.URL.Path] = object{string(body), strconv.Quote(strconv.Itoa(s.version)), r.Header.Get(fenceHeader)}
	}
}
