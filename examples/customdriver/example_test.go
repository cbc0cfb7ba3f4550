package customdriver_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"

	"github.com/golocker/golocker/examples/customdriver"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// An application opens it by the name under which it has registered itself; importing
// the package is enough.
func Example() {
	server, err := miniredis.Run() // your server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	client, err := locker.Open("customdriver", "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Do(context.Background(), "orders:42", func(context.Context) error {
		fmt.Println("nobody else works on order 42")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else works on order 42
}

// Its author tries it by itself first: a driver sends commands, and knows nothing of locks.
func ExampleDriver() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	connector, err := customdriver.Driver{}.OpenConnector(driver.Config{Addrs: []string{server.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := connector.Connect(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for _, args := range [][]string{{"SET", "k", "v", "NX"}, {"SET", "k", "w", "NX"}, {"GET", "k"}, {"LPOP", "k"}} {
		value, err := conn.Do(context.Background(), driver.Command{Args: args, FirstKey: 1, NumKeys: 1})
		fmt.Println(value, err)
	}

	_, err = customdriver.Driver{}.OpenConnector(driver.Config{Mode: driver.ModeCluster, Addrs: []string{server.Addr()}})
	fmt.Println(err)
	// Output:
	// OK <nil>
	// <nil> <nil>
	// v <nil>
	// <nil> WRONGTYPE Operation against a key holding the wrong kind of value
	// customdriver: driver: not supported: mode cluster (this driver has [single])
}
