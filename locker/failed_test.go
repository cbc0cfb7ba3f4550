package locker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestErrorsNameThePackageOnce(t *testing.T) {
	err := failed(`unlock "locker: k"`, ErrUnknown, nil, context.Canceled)
	assert.EqualError(t, err, `locker: unlock "locker: k": outcome unknown: context canceled`)
	assert.ErrorIs(t, err, ErrUnknown)
	assert.ErrorIs(t, err, context.Canceled)

	assert.EqualError(t, &WaitError{Name: "k"}, `locker: gave up waiting for "k" after 0s: <nil>`)

	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := must(t, c.Mutex("k"))
		f.set(func() { f.before = fails })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, broken := c.ForceRelease(ctx, "k")
		for _, err := range []error{broken, lease.Extend(ctx, DefaultTTL), lease.Unlock(ctx), c.Close()} {
			assert.ErrorIs(t, err, ErrUnknown)
			assert.Regexp(t, "^locker: ", err)
			assert.NotRegexp(t, `: locker: |\n`, err)
		}
	})
}
