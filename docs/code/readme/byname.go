package readme

import _ "github.com/golocker/golocker/drivers/rueidis"

import "github.com/golocker/golocker/locker"

// ByName leaves it to an import and a string which client is used.
func ByName(url string) (*locker.Client, error) {
	client, err := locker.Open("rueidis", url) // "redis://localhost:6379/0"
	return client, err
}
