package rueidis

import "github.com/golocker/golocker/locker"

func init() { locker.Register("rueidis", Driver{}) }
