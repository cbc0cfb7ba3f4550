package goredis

import "github.com/golocker/golocker/locker"

func init() { locker.Register("goredis", Driver{}) }
