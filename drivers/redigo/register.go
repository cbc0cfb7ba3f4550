package redigo

import "github.com/golocker/golocker/locker"

func init() { locker.Register("redigo", Driver{}) }
