package wire_test

import (
	"bufio"
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"

	"github.com/golocker/golocker/conformance/wire"
)

// The reply to a SET is lost: the client cannot know that the server has executed it.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	var backend wire.Backend = wire.TCP(server.Addr())
	var w *wire.Wire = wire.New(backend)
	defer w.Close()

	var action wire.Action = wire.CutReply
	var rule *wire.Rule = w.On(wire.Match{Name: "SET"}, action)

	conn, err := w.Dial(context.Background(), "tcp", server.Addr()) // what the client under test is given
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprint(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
	_, err = bufio.NewReader(conn).ReadString('\n')
	fmt.Println("the client:", err)

	<-rule.Happened()
	value, _ := server.Get("k")
	fmt.Println("the server:", value)
	var sets []wire.Request = w.Requests(wire.Match{Name: "SET"})
	fmt.Println(sets[0])
	// Output:
	// the client: EOF
	// the server: v
	// conn 1: SET[2 args] forwarded 1 replied true passed false
}
