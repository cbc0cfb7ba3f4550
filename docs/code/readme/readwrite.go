package readme

import (
	"context"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/rwlock"
)

// ReadersAndAWriter reads, and then rebuilds what was read.
func ReadersAndAWriter(ctx context.Context, client *locker.Client, list, rebuild Work) error {
	catalog := rwlock.New(client, "catalog")
	err := catalog.RDo(ctx, list) // together with other readers
	if err != nil {
		return err
	}
	return catalog.Do(ctx, rebuild) // alone
}
