package chaos

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/loadtest/fleet"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A scaler that plans is suspended, another one takes over, and the first wakes up;
// then the second is killed. There is no Kafka, so that they plan by the hosts that
// come and go. Requests have the tokens that they have alone, and no plan is written
// by a scaler of an earlier epoch than one before it.
func TestScalersTakeOver(t *testing.T) {
	wanted(t)
	y := startPipeline(t, fleet.Build(t), "unacked")
	y.Scale(1, 2)
	y.alone()
	written := y.followPlans()
	first := y.scaler()
	first.Await(t, "scaling=moeless")
	second := y.scaler()
	y.addHost(written)
	y.batch("scaler-hangs", func() { first.Hang(t) })
	second.Await(t, "scaling=moeless")
	suspended := written.epoch()
	y.addHost(written)
	if now := written.epoch(); now <= suspended {
		t.Errorf("the plan's epoch went from %d to %d when another scaler took over", suspended, now)
	}
	y.batch("scaler-wakes", func() { first.Wake(t); y.Kill("expert") })
	y.addHost(written)
	y.batch("scaler-killed", func() { second.Kill(); y.Forget("scaler", second) })
	first.Await(t, `stands by" service=scaler`) // it has learnt that it was not the one any more
	y.addHost(written)
	written.check(t)
	t.Log("\n" + y.table())
}

// scaler starts one that is told of a Kafka that is not there.
func (y *pipeline) scaler() *fleet.Process {
	y.T.Helper()
	p := y.Add("scaler", "--kafka", fleet.FreeAddr(y.T))
	p.Await(y.T, "ready")
	return p
}

// addHost adds an expert host, and waits until all gates' plans have it.
func (y *pipeline) addHost(w *written) {
	y.T.Helper()
	before := w.count()
	y.Add("expert").Await(y.T, "ready")
	for limit := time.Now().Add(patience); w.count() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			y.T.Fatal("a host came, and no plan was written")
		}
	}
}

// written are all plans that were written, in order.
type written struct {
	mu    sync.Mutex
	plans []*pb.LayerPlan
}

func (y *pipeline) followPlans() *written {
	y.T.Helper()
	js, err := jetstream.New(connect(y.T, y.URL()))
	if err != nil {
		y.T.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	kv, err := js.KeyValue(ctx, "switchyard_plans_demo")
	if err != nil {
		y.T.Fatal(err)
	}
	watch, err := kv.WatchAll(ctx, jetstream.UpdatesOnly())
	if err != nil {
		y.T.Fatal(err)
	}
	w, done := &written{}, make(chan struct{})
	go func() {
		defer close(done)
		for e := range watch.Updates() {
			w.take(e)
		}
	}()
	y.T.Cleanup(func() { _ = watch.Stop(); stop(); <-done })
	return w
}

func (w *written) take(e jetstream.KeyValueEntry) {
	l := &pb.LayerPlan{}
	if e == nil || e.Key() == "settings" || proto.Unmarshal(e.Value(), l) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans = append(w.plans, l)
}

func (w *written) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.plans)
}

// epoch is of the newest plan, 0 if none was written.
func (w *written) epoch() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.plans) == 0 {
		return 0
	}
	return w.plans[len(w.plans)-1].WriterEpoch
}

// check wants each layer's plans to follow each other, each by a writer that is not
// earlier than the one before.
func (w *written) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	last := map[uint32]*pb.LayerPlan{}
	for _, p := range w.plans {
		before := last[p.Layer]
		if last[p.Layer] = p; before == nil {
			continue
		}
		if p.Version != before.Version+1 || p.WriterEpoch < before.WriterEpoch {
			t.Errorf("layer %d: version %d of epoch %d after version %d of epoch %d", p.Layer, p.Version, p.WriterEpoch, before.Version, before.WriterEpoch)
		}
	}
}
