package fencing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/golocker/golocker/locker"
)

// fenceHeader keeps the token beside the object.
const fenceHeader = "X-Amz-Meta-Fence"

// A Bucket is an object store with conditional writes over HTTP: If-Match with an ETag,
// and If-None-Match: * for an object that is not there yet. S3, GCS (by generation),
// Azure Blob and MinIO have them.
type Bucket struct {
	Client *http.Client // which signs the requests, if that is needed
	URL    string
}

// Update replaces an object by what change makes of it, nil if there is none. It
// returns [ErrOutdated] if somebody has written it under a larger token, and begins
// anew if it has been changed since it was read.
func (b *Bucket) Update(ctx context.Context, key string, token locker.Token, change func(old []byte) []byte) error {
	if token == 0 {
		return ErrUnfenced
	}
	for {
		old, etag, last, err := b.get(ctx, key)
		switch {
		case err != nil:
			return err
		case token < last:
			return ErrOutdated
		}
		replaced, err := b.put(ctx, key, etag, token, change(old))
		if err != nil || replaced {
			return err
		}
	}
}

// get returns an object, its version, and the token that it was written under; no
// version if there is none.
func (b *Bucket) get(ctx context.Context, key string) (body []byte, etag string, last locker.Token, err error) {
	response, body, err := b.do(ctx, http.MethodGet, key, nil, nil)
	switch {
	case err != nil:
		return nil, "", 0, err
	case response.StatusCode == http.StatusNotFound:
		return nil, "", 0, nil
	case response.StatusCode != http.StatusOK:
		return nil, "", 0, fmt.Errorf("fencing: get %s: %s", key, response.Status)
	}
	n, err := strconv.ParseUint(response.Header.Get(fenceHeader), 10, 64)
	if err != nil {
		return nil, "", 0, fmt.Errorf("fencing: %s was written without a token: %w", key, err)
	}
	return body, response.Header.Get("ETag"), locker.Token(n), nil
}

// put writes an object if it still has that version.
func (b *Bucket) put(ctx context.Context, key, etag string, token locker.Token, body []byte) (replaced bool, err error) {
	header := http.Header{fenceHeader: {strconv.FormatUint(uint64(token), 10)}}
	if etag == "" {
		header.Set("If-None-Match", "*")
	} else {
		header.Set("If-Match", etag)
	}
	response, _, err := b.do(ctx, http.MethodPut, key, header, body)
	if err != nil {
		return false, err
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return true, nil
	case http.StatusPreconditionFailed, http.StatusConflict:
		return false, nil
	default:
		return false, fmt.Errorf("fencing: put %s: %s", key, response.Status)
	}
}

func (b *Bucket) do(ctx context.Context, method, key string, header http.Header, body []byte) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.URL+"/"+key, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := b.Client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response, content, err
}
