package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quietClients keeps the clients from writing to the standard error by themselves: what
// goes wrong is in the errors, and the stream is the command's.
func quietClients() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
