// Command switchyard serves Mixture-of-Experts language models as a message
// pipeline over NATS, and is its client. Every service is a subcommand.
//
// A subcommand is a file of its own here: a struct with its flags and a Run
// method, and one field in CLI (app.go). Commands that measure are those of
// switchyard-lab (loadtest/switchyard-lab), which this program runs.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

func main() {
	args, std := os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if cli.IsLabCommand(args) {
		os.Exit(cli.RunLab(args, std))
	}
	// A reader of our output that goes away must become a write error, so that
	// its request is cancelled rather than left behind.
	signal.Ignore(syscall.SIGPIPE)
	cli.NameVersion()
	os.Exit(program.Run(args, std))
}
