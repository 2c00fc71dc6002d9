// Package pages puts more requests on an attention replica than its memory for keys
// and values holds. It is a test of its own, started with SWITCHYARD_PAGES=1.
package pages

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// memory is 32 pages of the demo model, of which a sequence takes up to 16.
	memory = "8MiB"
	// settled is how long everything may take that is to happen soon.
	settled = 30 * time.Second
)

// services are a process of each service beside a NATS server, and their metrics.
type services struct {
	*testing.T
	*fleet.Fleet
	js      jetstream.JetStream
	client  *client.Client
	metrics map[string]string // addresses by service
}

func start(t *testing.T) *services {
	t.Helper()
	if os.Getenv("SWITCHYARD_PAGES") == "" {
		t.Skip("set SWITCHYARD_PAGES=1 to run it")
	}
	f := fleet.New(t, fleet.Settings{Programs: fleet.Build(t), Flags: []string{"--log-level", "warn"}})
	s := &services{T: t, Fleet: f, metrics: map[string]string{}}
	for _, kind := range fleet.Kinds {
		s.metrics[kind] = testkit.FreeAddr(t)
		flags := []string{"--metrics-addr", s.metrics[kind]}
		if kind == "attention" {
			flags = append(flags, "--kv-memory", memory)
		}
		defer f.Add(kind, flags...).Await(t, "ready")
	}
	nc, err := nats.Connect(f.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s.client = client.New(nc, client.Settings{})
	if s.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return s
}

// attention is what the attention replica tells by a metric.
func (s *services) attention(name string) float64 {
	s.Helper()
	m, err := fleet.Metrics(s.Context(), s.metrics["attention"])
	if err != nil {
		s.Fatal(err)
	}
	v, ok := m["switchyard_"+name]
	if !ok {
		s.Fatalf("attention has no metric switchyard_%s", name)
	}
	return v
}

func (s *services) pages() float64     { return s.attention(`kv_pages{model="demo",state="used"}`) }
func (s *services) sequences() float64 { return s.attention(`sequences{model="demo",state="active"}`) }

// eventually waits until something is so.
func (s *services) eventually(what string, so func() bool) {
	s.Helper()
	for end := time.Now().Add(settled); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", settled, what)
		}
	}
}

// prompt is a request whose answer is the same each time, and takes all of the
// context if nothing ends it.
func prompt(id string, n int) *pb.Prompt {
	return &pb.Prompt{
		RequestId: id, Text: strings.Repeat("Once upon a time there was a dog. ", 1+n%12), MaxTokens: proto.Int32(390),
		Temperature: proto.Float64(1), Seed: proto.Uint32(uint32(n)), IgnoreEos: true,
	}
}

func name(kind string, n int) string { return fmt.Sprintf("%s-%d-%d", kind, os.Getpid(), n) }
