package layer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const width = 4

// fakeLayer is everything behind the hop: it answers each hidden message with twice
// its rows, unless fault says what happens instead.
type fakeLayer struct {
	x     *Exchange
	conn  *fakeConn
	to    *fakePeers
	fault func(h *pb.Hidden) (answers []*pb.Block, err error, handled bool)

	mu   sync.Mutex
	sent []*pb.Hidden
}

func (y *fakeLayer) Send(_ context.Context, subject string, m proto.Message) error {
	h, _ := proto.Clone(m).(*pb.Hidden) // the sender uses its buffer again
	if want := "switchyard.hidden.demo.3"; subject != want {
		return errors.New(subject + " is not " + want)
	}
	y.mu.Lock()
	y.sent = append(y.sent, h)
	y.mu.Unlock()
	if y.fault != nil {
		if answers, err, handled := y.fault(h); handled {
			return errors.Join(err, y.deliver(answers...))
		}
	}
	return y.deliver(twice(h))
}

func (y *fakeLayer) deliver(blocks ...*pb.Block) error {
	for _, b := range blocks {
		if err := y.x.receive(b); err != nil {
			return err
		}
	}
	return nil
}

func (y *fakeLayer) count() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.sent)
}

// twice is the block of a hidden message.
func twice(h *pb.Hidden) *pb.Block {
	x := make([]float32, int(h.Key.Rows)*width)
	if err := tensor.Decode(x, h.Tensor, width); err != nil {
		panic(err)
	}
	for i := range x {
		x[i] *= 2
	}
	return &pb.Block{Key: h.Key, Tensor: tensor.Encode(tensor.F32, x, width, nil)}
}

// change is a block with another key.
func change(b *pb.Block, f func(*pb.Key)) *pb.Block {
	c, _ := proto.Clone(b).(*pb.Block)
	f(c.Key)
	return c
}

// fakeConn notes what is announced, and copied.
type fakeConn struct {
	payload int
	err     error
	steps   []*pb.Step
	copied  int // rows
	hung    atomic.Bool
}

func (c *fakeConn) MaxPayload() int64 { return int64(c.payload) }
func (c *fakeConn) Hears() bool       { return !c.hung.Load() }
func (c *fakeConn) Send(_ context.Context, _ string, m proto.Message, _ nats.Header) error {
	switch m := m.(type) {
	case *pb.Step:
		c.steps = append(c.steps, m)
	case *pb.Hidden:
		c.copied += int(m.Key.Rows)
	}
	return c.err
}

// fakePeers are an aggregator, or those that choose names, and any gate.
type fakePeers struct {
	choose    func() (id string, rowSums, ok bool)
	suspected int
	away      atomic.Value // string: who is
	trouble   atomic.Value // string
}

// said is the text of v; none was stored: it is empty.
func said(v *atomic.Value) string {
	text, _ := v.Load().(string)
	return text
}

func (f *fakePeers) aggregatorFor(uint64, uint32) (id string, rowSums, ok bool) { return f.choose() }
func (f *fakePeers) gate(uint64, uint32) string                                 { return "" }
func (f *fakePeers) troubled() string                                           { return said(&f.trouble) }
func (f *fakePeers) absent() error {
	if away := said(&f.away); away != "" {
		return errors.New(away)
	}
	return nil
}
func (f *fakePeers) suspect(...string) { f.suspected++ }

func newFakeLayer(t *testing.T, rowsPerMessage int) (*fakeLayer, *Remote) {
	t.Helper()
	y := &fakeLayer{
		conn: &fakeConn{payload: wire.Headroom + rowsPerMessage*(width*4+routingBytes)},
		to:   &fakePeers{choose: func() (string, bool, bool) { return "aggregator-1", true, true }},
	}
	y.x = newExchange(wiring{
		subjects: schemas.NewSubjects("switchyard", "demo"), identity: wire.Identity{Model: 7}, owner: "attention-1", epoch: 9,
		shape: shape{hidden: width, slots: 2, experts: 8, wire: tensor.F32}, hop: y, conn: y.conn, to: y.to,
		counts: &counts{
			metrics:  telemetry.NewMetrics(prometheus.NewRegistry()),
			presence: (&deployment.Deployment{}).NewPresence("attention-1", "attention"),
		},
	})
	r := y.x.Remote(1, &forward.Progress{})
	r.Begin(t.Context(), Step{})
	return y, r
}

// layer takes rows through the fake layer.
func layer(ctx context.Context, r *Remote, rows int) (x, out []float32, err error) {
	for i := range rows * width {
		x = append(x, float32(i+1))
	}
	pending, err := r.Start(ctx, 3, x)
	if err != nil {
		return x, nil, err
	}
	out = make([]float32, len(x))
	return x, out, pending.Wait(ctx, out)
}

func checkLayer(t *testing.T, r *Remote, rows int) {
	t.Helper()
	x, out, err := layer(t.Context(), r, rows)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		x[i] *= 2
	}
	if !slices.Equal(out, x) {
		t.Errorf("%v, want %v", out, x)
	}
	if n := len(r.waiters); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
	if r.Waiting() {
		t.Error("nothing is awaited any more")
	}
}

// Rows go out in as many messages as the payload asks for, each row once.
func TestRemoteParts(t *testing.T) {
	for rows, messages := range map[int]int{1: 1, 3: 1, 4: 2, 10: 4} {
		y, r := newFakeLayer(t, 3)
		checkLayer(t, r, rows)
		sum := uint32(0)
		for _, h := range y.sent {
			if h.Key.Part != sum || h.Key.Rows > 3 || h.Tensor.Rows != h.Key.Rows || h.Key.Aggregator != "aggregator-1" {
				t.Errorf("key %v", h.Key)
			}
			sum += h.Key.Rows
		}
		if len(y.sent) != messages || int(sum) != rows {
			t.Errorf("%d rows in %d messages, want %d in %d", sum, len(y.sent), rows, messages)
		}
	}
}

// Whatever is lost is issued again, and only that.
func TestRemoteReissues(t *testing.T) {
	away := 0
	for _, tc := range []struct {
		name  string
		fault func(h *pb.Hidden) ([]*pb.Block, error, bool)
		sent  int // of 3 parts
	}{
		{"all lost once", func(h *pb.Hidden) ([]*pb.Block, error, bool) { return nil, nil, h.Key.Attempt == 0 }, 6},
		{"one part lost", func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			return nil, nil, h.Key.Attempt == 0 && h.Key.Part == 2
		}, 4},
		{"lost four times", func(h *pb.Hidden) ([]*pb.Block, error, bool) { return nil, nil, h.Key.Attempt < 4 }, 15},
		{"server away", func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			away++
			return nil, fmt.Errorf("publishing: %w", nats.ErrReconnectBufExceeded), away <= 20
		}, 23},
		{"late answer", func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			if h.Key.Attempt == 0 {
				return nil, nil, true
			}
			return []*pb.Block{change(twice(h), func(k *pb.Key) { k.Attempt = 0 })}, nil, true
		}, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y, r := newFakeLayer(t, 2)
				y.fault = tc.fault
				checkLayer(t, r, 6)
				if y.count() != tc.sent {
					t.Errorf("%d messages, want %d", y.count(), tc.sent)
				}
				y.fault = nil
				checkLayer(t, r, 6) // the worker is as good as new
			})
		})
	}
}

// A worker that waits for its first answer waits for others: it does not hang.
func TestRemoteWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 2)
		answer := make(chan *pb.Block, 1)
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) { answer <- twice(h); return nil, nil, true }
		go func() {
			b := <-answer
			synctest.Wait()
			if !r.Waiting() {
				t.Error("it waits, and does not say so")
			}
			if err := y.deliver(b); err != nil {
				t.Error(err)
			}
		}()
		checkLayer(t, r, 2)
	})
}

// Until there is an aggregator nothing is sent, and then it is.
func TestRemoteWithoutAggregator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 2)
		asked := 0
		y.to.choose = func() (string, bool, bool) { asked++; return "aggregator-2", false, asked > 2 }
		checkLayer(t, r, 2)
		if y.count() != 1 || y.sent[0].Key.Aggregator != "aggregator-2" {
			t.Errorf("%v", y.sent)
		}
	})
}

// Rows ask for sums where their own aggregator takes them.
func TestRemoteRowSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 2)
		var sums []bool
		y.to.choose = func() (string, bool, bool) {
			sums = append(sums, len(sums)%2 == 1)
			return "aggregator-1", sums[len(sums)-1], true
		}
		checkLayer(t, r, 6)
		for i, h := range y.sent {
			if h.Key.RowSums != sums[i] {
				t.Errorf("message %d: %v", i, h.Key)
			}
		}
	})
}

// Nothing but the block that is awaited changes the result.
func TestRemoteForeignBlocks(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		good := twice(h)
		wrong, _ := proto.Clone(good).(*pb.Block)
		wrong.Tensor.Data = make([]byte, len(wrong.Tensor.Data))
		blocks := []*pb.Block{good, good, wrong}
		for _, f := range []func(*pb.Key){
			func(k *pb.Key) { k.Epoch++ }, func(k *pb.Key) { k.Step++ },
			func(k *pb.Key) { k.Step-- }, func(k *pb.Key) { k.Layer++ }, func(k *pb.Key) { k.Layer-- }, func(k *pb.Key) { k.Part++ },
		} {
			blocks = slices.Insert(blocks, 0, change(wrong, f))
		}
		return blocks, nil, true
	}
	checkLayer(t, r, 6)
	for _, h := range y.sent {
		if err := y.x.receive(twice(h)); err != nil { // and nothing after the end
			t.Error(err)
		}
	}
}

func TestRemoteRefuses(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	for name, f := range map[string]func(*pb.Block){
		"another model": func(b *pb.Block) { b.Key.Model = 8 }, "no key": func(b *pb.Block) { b.Key = nil },
		"fewer rows": func(b *pb.Block) { b.Tensor.Rows, b.Tensor.Data = 1, b.Tensor.Data[:16] }, "no tensor": func(b *pb.Block) { b.Tensor = nil },
		"other rows": func(b *pb.Block) { b.Key.Rows++ }, "other rows' error": func(b *pb.Block) { b.Key.Rows, b.Error = 1<<20, &pb.Error{} },
	} {
		refused := false
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			b, _ := proto.Clone(twice(h)).(*pb.Block)
			f(b)
			refused = y.x.receive(b) != nil
			return []*pb.Block{twice(h)}, nil, true
		}
		checkLayer(t, r, 2)
		if !refused {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestRemoteFails(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		name  string
		ctx   context.Context
		fault func(h *pb.Hidden) ([]*pb.Block, error, bool)
		says  string
	}{
		{"refused by a service", context.Background(), func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			return []*pb.Block{{Key: h.Key, Error: &pb.Error{Message: "no such expert"}}}, nil, true
		}, "no such expert"},
		{"too large", context.Background(), func(*pb.Hidden) ([]*pb.Block, error, bool) { return nil, &bus.TooLargeError{Size: 9}, true }, "publishing"},
		{"nobody answers", context.Background(), func(*pb.Hidden) ([]*pb.Block, error, bool) { return nil, nil, true }, "no answer"},
		{"stopped", cancelled, func(*pb.Hidden) ([]*pb.Block, error, bool) { return nil, nil, true }, "canceled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y, r := newFakeLayer(t, 2)
				y.fault = tc.fault
				if _, _, err := layer(tc.ctx, r, 6); err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v, want %q", err, tc.says)
				}
				if len(r.waiters) != 0 || r.Waiting() {
					t.Errorf("%d waiters are left, waiting %v", len(r.waiters), r.Waiting())
				}
				y.fault = nil
				checkLayer(t, r, 6)
			})
		})
	}
}

// A layer's times are of the block that came last, and are believed as far as
// the layer's own time allows.
func TestRemoteTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 4)
		registry := prometheus.NewRegistry()
		r.counts.metrics = telemetry.NewMetrics(registry)
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			b := twice(h)
			b.Gate = &pb.GateTime{QueueNs: 1, ComputeNs: 2}
			if h.Key.Part > 0 {
				time.Sleep(time.Millisecond)
				b.Gate.QueueNs = 1 << 60
				b.Functions = []*pb.FunctionTime{{Function: 5, ComputeNs: 7}, {Function: 6}, {}, {}, {}, {}, {}, {}, {}}
			}
			return []*pb.Block{b}, nil, true
		}
		checkLayer(t, r, 8)
		if len(r.Layers()) != 1 {
			t.Fatalf("%d layers", len(r.Layers()))
		}
		l := r.Layers()[0]
		if l.Layer != 3 || l.Total != time.Millisecond || l.By[ledger.GateQueue] != time.Millisecond || l.Critical != 5 || l.Functions != 4*2 {
			t.Errorf("%+v", l)
		}
		if n := counted(t, registry, "switchyard_cut_time_claims_total"); n != 2 {
			t.Errorf("%v claims were cut, want a time and the functions", n)
		}
	})
}

func counted(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			sum += f.Metric[0].GetCounter().GetValue()
		}
	}
	return sum
}
