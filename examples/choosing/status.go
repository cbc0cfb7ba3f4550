package choosing

import (
	"errors"
	"net/http"

	"github.com/golocker/golocker/locker"
)

// Status is what a service answers to a request whose work was to be done by Client.Do.
func Status(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, locker.ErrLost), errors.Is(err, locker.ErrUnknown):
		return http.StatusInternalServerError // work has begun, and may be done
	case errors.Is(err, locker.ErrClosed), errors.Is(err, locker.ErrTooManyWaiters):
		return http.StatusServiceUnavailable // here; another process may do it
	case errors.Is(err, locker.ErrLocked):
		return http.StatusConflict
	case errors.Is(err, locker.ErrUnavailable):
		return http.StatusServiceUnavailable // whether it is locked is not known
	}
	return http.StatusInternalServerError // work's own error, or a mistake such as ErrForeign
}
