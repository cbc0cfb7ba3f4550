package lockdebug_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/lockdebug"
)

// The page is served where only this host reaches it.
func ExampleHandler() {
	var client *locker.Client // from locker.New or locker.Open
	mux := http.NewServeMux()
	mux.Handle("/debug/locks", lockdebug.Handler(client))
	go func() { log.Print(http.ListenAndServe("localhost:6060", mux)) }()
}

// A program reads the same as JSON.
func ExampleReport() {
	resp, err := http.Get("http://localhost:6060/debug/locks?format=json")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var report lockdebug.Report
	if err := json.NewDecoder(resp.Body).Decode(&report); err != nil {
		log.Fatal(err)
	}
	for _, client := range report.Clients {
		for _, lease := range client.Leases {
			fmt.Println(lease.Lock, "ends in", lease.Left, "s unless it is renewed")
		}
	}
}
