package chaos

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

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
