package clustertest

import (
	"context"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Cluster is a whole pipeline of a test.
type Cluster struct {
	*cluster.Cluster
	// Producer asks, on a connection of its own.
	Producer *client.Client
}

// Start runs a pipeline of a model until the test ends, and waits until a token can flow.
// Rows travel as bf16 and unacknowledged, unless a change says otherwise.
func Start(t testing.TB, m *model.Model, changes ...Change) Cluster {
	t.Helper()
	s, err := Settings(t.Context(), m, tensor.BF16, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(&s)
	}
	return Run(t, s)
}

// Run is Start with settings of one's own.
func Run(t testing.TB, s cluster.Settings) Cluster {
	t.Helper()
	c := Cluster{Cluster: Ready(t, s)}
	c.Producer = client.New(c.Conn(t).NATS(), client.Settings{Prefix: s.Node.Shared.Prefix, Model: c.Name()})
	return c
}

// Ready is Run without a producer, whose connection a test may not want.
func Ready(t testing.TB, s cluster.Settings) *cluster.Cluster {
	t.Helper()
	s.Node.Drain = testkit.Patience                 // also on a machine that is busy
	y, err := cluster.Open(context.Background(), s) // the test's ends before its clean-up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := y.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return y
}

// Name returns the model's name in subjects.
func (y Cluster) Name() string { return y.Settings.Node.ModelName() }

// Conn returns another connection of a producer, until the test ends.
func (y Cluster) Conn(t testing.TB) *bus.Conn {
	t.Helper()
	c, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Ask streams the answer to a prompt.
func (y Cluster) Ask(t testing.TB, p *pb.Prompt) func(func(*pb.Chunk, error) bool) {
	t.Helper()
	s, err := y.Producer.Prompt(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return s.Chunks()
}

// Answer waits for the end of a prompt's answer, and returns the error that it ends in.
func (y Cluster) Answer(t testing.TB, p *pb.Prompt) error {
	t.Helper()
	for c, err := range y.Ask(t, p) {
		if err != nil {
			return err
		}
		if err := client.Failure(c); err != nil {
			return err
		}
	}
	return nil
}
