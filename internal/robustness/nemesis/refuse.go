package nemesis

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/golocker/golocker/internal/servertest"
)

// refusals are servers that are there and refuse to write.
func refusals() []Fault {
	return []Fault{
		{Name: "out-of-memory", Kinds: everywhere, Inject: onServer(configured("maxmemory", "1", "0"))},
		{Name: "no-replicas", Kinds: everywhere, Inject: onServer(configured("min-replicas-to-write", "3", "0"))},
		{Name: "readonly", Kinds: alone, Inject: onServer(beReplica)},
		{Name: "misconf", Kinds: alone, Inject: onServer(failToSave)},
	}
}

// configured changes one setting, and back.
func configured(name, value, back string) strike {
	return func(_ context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
		if err := set(srv, name, value); err != nil {
			return nil, err
		}
		return func(context.Context) error { return set(srv, name, back) }, nil
	}
}

// beReplica makes a server the replica of one that is not there: it keeps its data and
// refuses to write.
func beReplica(_ context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	if _, err := srv.Do("REPLICAOF", "127.0.0.1", "1"); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		_, err := srv.Do("REPLICAOF", "NO", "ONE")
		return err
	}, nil
}

// failToSave makes a snapshot fail, after which the server refuses to write.
func failToSave(ctx context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	inTheWay := filepath.Join(filepath.Dir(srv.Socket), "dump.rdb")
	if err := os.RemoveAll(inTheWay); err != nil { // that of a time when it was a replica
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(inTheWay, "directory"), 0o700); err != nil {
		return nil, err
	}
	heal := func(context.Context) error {
		return errors.Join(set(srv, "save", ""), os.RemoveAll(inTheWay))
	}
	err := set(srv, "save", "3600 1")
	if err == nil {
		err = servertest.Await(ctx, func() error { // one may be in progress, as for a replica
			_, err := srv.Do("BGSAVE")
			return err
		})
	}
	if err == nil {
		err = servertest.Await(ctx, func() error {
			return errors.Join(
				srv.InfoSays("persistence", "rdb_bgsave_in_progress:0"),
				srv.InfoSays("persistence", "rdb_last_bgsave_status:err"))
		})
	}
	if err != nil {
		return nil, errors.Join(err, heal(ctx))
	}
	return heal, nil
}
