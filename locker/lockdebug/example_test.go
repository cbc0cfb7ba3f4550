package lockdebug_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"slices"

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

func ending(l lockdebug.Lease) string {
	return fmt.Sprintf("%s ends in %.1f s unless it is renewed", l.Lock, l.Left)
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
			fmt.Println(ending(lease))
		}
		slices.SortFunc(client.Waiters, func(a, b lockdebug.Waiter) int { return a.Since.Compare(b.Since) })
		for _, w := range client.Waiters {
			fmt.Println(w.Lock, "is waited for since", w.Since)
		}
	}
}
