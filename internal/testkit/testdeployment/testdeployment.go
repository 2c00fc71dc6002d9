// Package testdeployment gives tests a deployment of their own.
package testdeployment

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// Open opens a deployment of the small synthetic model on a server of its own, with
// changed settings.
func Open(t testing.TB, change ...func(*deployment.Settings)) *deployment.Deployment {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	t.Cleanup(p.Close)
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := deployment.Settings{
		Conn: testserver.Connect(t), Model: m, Pool: p, Prefix: schemas.DefaultPrefix, Hops: schemas.HopsUnacked,
		Wire: tensor.BF16, Telemetry: tel, Logger: slog.New(slog.DiscardHandler),
	}
	for _, fn := range change {
		fn(&s)
	}
	d, err := deployment.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Received is what has come to one place of a deployment.
type Received[M proto.Message] struct {
	mu  sync.Mutex
	all []M
}

// Listen collects the messages that come to a receiver until the test ends.
func Listen[M proto.Message](t testing.TB, d *deployment.Deployment, r bus.Receiver) *Received[M] {
	t.Helper()
	got := &Received[M]{}
	receiving, err := d.Hop.Receive(t.Context(), r, func(_ context.Context, m *bus.Msg) error { return got.take(m) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { receiving.Stop(); <-receiving.Closed() })
	return got
}

func (g *Received[M]) take(m *bus.Msg) error {
	var none M
	body, _ := none.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(m.Data, body); err != nil {
		return bus.Poison(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, body)
	return nil
}

// All returns what has come so far.
func (g *Received[M]) All() []M {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.all)
}

// Take waits for n messages and returns all there are.
func (g *Received[M]) Take(t testing.TB, n int) []M {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d messages", n), func() bool { return len(g.All()) >= n })
	return g.All()
}
