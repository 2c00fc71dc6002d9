// Command broker runs the embedded Kafka broker as a process of its own, where no
// Kafka is at hand: for a trial on one machine, and for load tests, which kill it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9092", "HOST:PORT on the loopback")
	dir := flag.String("data", "", "folder that keeps samples over restarts; without it memory does")
	topic := flag.String("topic", kafka.DefaultTopic, "the topic; there is no other")
	flag.Parse()
	if err := run(embedded.Settings{Listen: *listen, Topics: []string{*topic}, Dir: *dir, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}); err != nil {
		fmt.Fprintf(os.Stderr, "broker: %v\n", err)
		os.Exit(2)
	}
}

// run serves until the process is told to end.
func run(s embedded.Settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := embedded.Start(s)
	if err != nil {
		return err
	}
	defer b.Close()
	fmt.Fprintln(os.Stderr, "ready")
	<-ctx.Done()
	return nil
}
