// Command delaybridge accepts messages now and delivers them when they are due,
// through the broker that is already there. See README.md, or run
//
//	go run ./cmd/delaybridge dev
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
