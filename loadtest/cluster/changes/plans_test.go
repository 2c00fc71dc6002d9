// Package changes tests that tokens stay the same, and few rows are sent twice, while plans,
// hosts and replicas of a pipeline change, hang, are slow or leave; and that what requests and
// operators are told of it is right.
package changes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/loadtest/conductor"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/asker"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const elasticHosts = 3

var elasticModel = goldens.Dir("mixtral")

// conducted is a pipeline whose plans the test writes.
type conducted struct {
	*conductor.Conductor
	t       *testing.T
	y       clustertest.Cluster
	js      jetstream.JetStream
	q       *asker.Asker
	hosts   []string
	layers  []int
	experts int
	divided *pb.AccessTime // by what gates divide rows of the plans that are written
}

// startElastic is a pipeline whose experts go cold soon, but not while a step is under way on a
// machine that is slow: it would wake them anew for each layer.
func startElastic(t *testing.T) *conducted {
	t.Helper()
	idle := 50 * time.Millisecond
	if testkit.Race {
		idle = 2 * time.Second
	}
	y := clustertest.Start(t, clustertest.Open(t, elasticModel), clustertest.Hosts(elasticHosts), clustertest.Context(compared.Positions),
		func(s *cluster.Settings) { s.Services.Expert.KeepAlive = idle })
	n := y.Settings.Node
	c, err := conductor.Begin(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e := &conducted{Conductor: c, t: t, y: y, js: y.Conn(t).JetStream(), q: compared.Asker(y), layers: c.MoELayers(), experts: n.Shared.Model.Spec.Experts}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if e.hosts, err = e.AwaitHosts(ctx, elasticHosts); err != nil {
		t.Fatal(err)
	}
	return e
}

// write has each layer's functions as make1 says, and waits until gates use them.
func (e *conducted) write(make1 func(layer int) []*pb.Function) {
	e.t.Helper()
	var all []*pb.LayerPlan
	for _, l := range e.layers {
		all = append(all, &pb.LayerPlan{Layer: uint32(l), Functions: make1(l), Division: e.divided})
	}
	if err := e.Write(e.t.Context(), all...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *conducted) inUse() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), testkit.Patience)
	defer cancel()
	if err := e.AwaitInUse(ctx); err != nil {
		e.t.Fatal(err)
	}
}

// each makes a function of each expert, on so many hosts.
func (e *conducted) each(replicas int, want pb.Want) func(int) []*pb.Function {
	return func(layer int) (fs []*pb.Function) {
		for x := range uint32(e.experts) {
			f := plan.Function(layer, []uint32{x})
			for r := range replicas {
				f.Placements = append(f.Placements, &pb.Placement{Host: e.hosts[(int(x)+r)%len(e.hosts)], Want: want})
			}
			fs = append(fs, f)
		}
		return fs
	}
}

// asleep waits until a layer's function of expert 0 is cold everywhere.
func (e *conducted) asleep(layer int) {
	e.t.Helper()
	id := plan.FunctionID(layer, []uint32{0}, plan.Routed)
	testkit.Eventually(e.t, "expert 0 cold", func() bool {
		for _, r := range e.States.Replicas(layer, id) {
			if r.Phase != pb.FunctionPhase_FUNCTION_PHASE_COLD {
				return false
			}
		}
		return true
	})
}

// Whatever the plans do meanwhile, tokens are those of direct calls: replicas grow
// and shrink, experts go to zero and come back, in memory or not, under requests.
func TestTokensWhileRescaling(t *testing.T) {
	t.Parallel()
	want := compared.Direct(t, elasticModel, tensor.BF16).Tokens
	e := startElastic(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	for i := range compared.AtOnce {
		asking.Go(func() {
			for ctx.Err() == nil {
				if got, err := compared.Sampled(t.Context(), e.q, i); err != nil || !slices.Equal(got, want[i]) {
					t.Errorf("prompt %d: %v, %v; want %v", i, got, err, want[i])
					return
				}
			}
		})
	}
	const warm, kept, cold = pb.Want_WANT_WARM, pb.Want_WANT_KEPT, pb.Want_WANT_COLD
	for _, step := range []func(int) []*pb.Function{
		e.each(1, warm), e.each(3, warm), e.each(1, warm), e.each(1, cold), e.each(2, cold), e.each(3, warm), e.reserved(kept), e.each(1, warm),
	} {
		e.write(step)
		e.inUse()
	}
	stop()
	asking.Wait()
	e.write(e.each(1, cold))
	e.asleep(e.layers[0])
	for i := range compared.AtOnce {
		if got, err := compared.Sampled(t.Context(), e.q, i); err != nil || !slices.Equal(got, want[i]) {
			t.Errorf("prompt %d, of cold experts: %v, %v; want %v", i, got, err, want[i])
		}
	}
}

// However gates divide rows among replicas, tokens are those of direct calls.
func TestTokensWhileDividing(t *testing.T) {
	t.Parallel()
	want := compared.Direct(t, elasticModel, tensor.BF16).Tokens
	e := startElastic(t)
	for _, takes := range []*pb.AccessTime{nil, {RowSeconds: 1e-3}, {ReadSeconds: 1, RowSeconds: 1e-3}, {ReadSeconds: 5e-3, RowSeconds: 1e-3, CallSeconds: 1e-3}} {
		e.divided = takes
		e.write(e.each(3, pb.Want_WANT_WARM))
		e.inUse()
		for i := range compared.AtOnce {
			if got, err := compared.Sampled(t.Context(), e.q, i); err != nil || !slices.Equal(got, want[i]) {
				t.Errorf("prompt %d, divided by %v: %v, %v; want %v", i, takes, got, err, want[i])
			}
		}
	}
}

// reserved is one warm replica of each expert and another one elsewhere.
func (e *conducted) reserved(want pb.Want) func(int) []*pb.Function {
	return func(layer int) []*pb.Function {
		fs := e.each(2, pb.Want_WANT_WARM)(layer)
		for _, f := range fs {
			f.Placements[1].Want = want
		}
		return fs
	}
}

// random groups experts and wants something of each function somewhere.
func (e *conducted) random(r *rand.Rand) func(int) []*pb.Function {
	return func(layer int) (fs []*pb.Function) {
		groups := map[int][]uint32{}
		for x := range uint32(e.experts) {
			at := r.IntN(e.experts)
			groups[at] = append(groups[at], x)
		}
		for _, experts := range groups {
			f := plan.Function(layer, experts)
			for i, host := range r.Perm(len(e.hosts))[:1+r.IntN(len(e.hosts))] {
				want := pb.Want(1 + r.IntN(3))
				if i == 0 && want == pb.Want_WANT_KEPT { // somebody takes its rows
					want = pb.Want_WANT_WARM
				}
				f.Placements = append(f.Placements, &pb.Placement{Host: e.hosts[host], Want: want})
			}
			fs = append(fs, f)
		}
		return fs
	}
}

// However often plans change, each function of the last one has its consumer, no
// other has one, and nothing else is left behind.
func TestConsumersOfChangingPlans(t *testing.T) {
	e := startElastic(t)
	r := rand.New(rand.NewPCG(1, 2))
	e.write(e.each(1, pb.Want_WANT_WARM))
	e.inUse()
	e.awaitConsumers()
	before := runtime.NumGoroutine()
	for i := range 50 {
		if e.write(e.random(r)); i%5 == 4 { // the others are overtaken
			e.inUse()
		}
	}
	e.inUse()
	e.awaitConsumers()
	e.write(e.each(1, pb.Want_WANT_WARM))
	e.inUse()
	e.awaitConsumers()
	testkit.Eventually(t, fmt.Sprintf("as many goroutines as before, %d", before), func() bool { return runtime.NumGoroutine() <= before+5 })
}

// awaitConsumers waits until there are as many as functions.
func (e *conducted) awaitConsumers() {
	e.t.Helper()
	functions := 0
	plans, err := e.Plans.Read(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	for _, l := range plans.Layers() {
		functions += len(l.Functions)
	}
	last := 0
	defer func() { e.t.Logf("%d functions, %d consumers", functions, last) }()
	testkit.Eventually(e.t, fmt.Sprintf("a consumer for each of %d functions", functions), func() bool {
		last, err = e.consumers()
		return err == nil && last == functions
	})
}

// consumers counts the consumer groups of the functions of all layers on the server.
func (e *conducted) consumers() (n int, err error) {
	for _, layer := range e.layers {
		stream, failed := e.js.Stream(e.t.Context(), e.Streams.Expert(layer).Name)
		if failed != nil {
			return 0, failed
		}
		names := stream.ConsumerNames(e.t.Context())
		for range names.Name() {
			n++
		}
		err = errors.Join(err, names.Err())
	}
	return n, err
}
