// Command switchyard serves Mixture-of-Experts language models as a message
// pipeline over NATS, and is its client. Every service is a subcommand.
//
// A subcommand is a file of its own here: a struct with its flags and a Run
// method, and one field in CLI (cli.go).
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A reader of our output that goes away must become a write error, so that
	// its request is cancelled rather than left behind.
	signal.Ignore(syscall.SIGPIPE)
	nameVersion()
	os.Exit(run(os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
