package engine

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// logbook is a token log in memory. With err set nothing more can be written.
type logbook struct {
	records []*pb.Record
	err     error
	flushed int
	full    bool
	refused error // of the next record
}

func (l *logbook) Append(r *pb.Record) error {
	if l.err != nil {
		return l.err
	}
	if err := l.refused; err != nil {
		l.refused = nil
		return err
	}
	c, _ := proto.Clone(r).(*pb.Record)
	l.records = append(l.records, c)
	return nil
}

func (l *logbook) Full() bool                  { return l.full }
func (l *logbook) Flush(context.Context) error { l.flushed++; return l.err }
func (l *logbook) Done() <-chan struct{}       { return nil }

// end is the terminal record, nil if there is none.
func (l *logbook) end() (t *pb.Terminal) {
	for _, r := range l.records {
		if r.GetTerminal() != nil {
			t = r.GetTerminal()
		}
	}
	return t
}

func (l *logbook) tokens() (ids []uint32) {
	for _, r := range l.records {
		if t := r.GetToken(); t != nil {
			ids = append(ids, t.Id)
		}
	}
	return ids
}

// parcel is a delivery that counts what becomes of it.
type parcel struct {
	acks, naks, renewals int
	ended                error // End's
}

func (p *parcel) Ack() error              { p.acks++; return nil }
func (p *parcel) Nak(time.Duration) error { p.naks++; return nil }
func (p *parcel) End(err error) error     { p.ended = err; return nil }
func (p *parcel) InProgress() error       { p.renewals++; return nil }
func (p *parcel) AckSubject() string      { return fmt.Sprintf("%p", p) }

// bench is an engine whose workers are the test: it takes what they get and
// settles it when it likes.
type bench struct {
	*Engine
	*scheduler
	t               testing.TB
	keeper          *renewal.Keeper
	kv              *kvcache.Pool
	taken, released int
	flying          []*microbatch
	clock           time.Time
}

func TestMain(m *testing.M) { testleaks.Main(m) }

func testStats(t testing.TB, shape kvcache.Shape) *stats {
	t.Helper()
	kv, err := kvcache.NewPool(shape, 64*shape.PageBytes())
	if err != nil {
		t.Fatal(err)
	}
	presence := (&deployment.Deployment{}).NewPresence("attention-1", "attention")
	return &stats{metrics: telemetry.NewMetrics(prometheus.NewRegistry()), presence: presence, kv: kv, model: "demo", log: slog.New(slog.DiscardHandler), times: &stepTimes{}}
}

// unheard is a layer that is called by nobody: experts are computed here.
type unheard struct{ forward.MoE }

func (unheard) Begin(context.Context, layer.Step)                {}
func (unheard) Number() uint64                                   { return 0 }
func (unheard) Layers() []ledger.Layer                           { return nil }
func (unheard) Curve() []uint32                                  { return nil }
func (unheard) Outcome(int, int) (fates *pb.Fates, c layer.Cost) { return nil, c }
func (unheard) Waiting() bool                                    { return false }

var oneHead = kvcache.Shape{Layers: []kvcache.LayerShape{{Heads: 1, KeyDim: 4, ValueDim: 4}}}

func newBench(t testing.TB, workers, maxRows int) *bench {
	t.Helper()
	st := testStats(t, oneHead)
	ls := make([]*worker, workers)
	for i := range ls {
		ls[i] = newWorker(nil, func(*forward.Progress) Remote { return unheard{} }, nil, st)
	}
	policy := batching.Policy{Microbatches: workers, MinRows: 2, MaxRows: maxRows}
	b := &bench{t: t, kv: st.kv, clock: time.Now()}
	b.scheduler = newScheduler(policy, ls, func() time.Time { return b.clock }, slog.New(slog.DiscardHandler), st)
	b.Engine = newEngine(b.scheduler, ls, t.Context().Done())
	b.ender.log = slog.New(slog.DiscardHandler)
	b.keeper = renewal.New(slog.New(slog.DiscardHandler), b.Pulse(), b.Workers(), time.Hour)
	return b
}

// count is what a counter has.
func count(c prometheus.Counter) float64 {
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		panic(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// later lets time pass, and the scheduler look at it.
func (b *bench) later(d time.Duration) {
	b.clock = b.clock.Add(d)
	b.tick()
}

// hasPages gives the engine another number of KV pages.
func (b *bench) hasPages(n int) { b.hasPagesOf(oneHead, n) }

func (b *bench) hasPagesOf(shape kvcache.Shape, n int) {
	kv, err := kvcache.NewPool(shape, int64(n)*shape.PageBytes())
	if err != nil {
		b.t.Fatal(err)
	}
	b.kv, b.stats.kv, b.seats.kv = kv, kv, kv
}

// request makes an admitted sequence; 9 is its end-of-sequence token.
func (b *bench) request(id string, prompt, maxTokens int) *Sequence {
	s := newSequence(&pb.Sequence{
		RequestId: id, PromptIds: make([]uint32, prompt), MaxTokens: int32(maxTokens), StopTokenIds: []uint32{9},
		Sampling: &pb.Sampling{Logprobs: -1},
	})
	b.taken++
	s.writer, s.delivery, s.accepted = &logbook{}, b.keeper.Keep(&parcel{}), b.clock
	s.release = func(int) { b.released++ }
	return s
}

// start takes what the scheduler has for idle workers.
func (b *bench) start() {
	for mb, _ := b.next(); mb != nil; mb, _ = b.next() {
		b.flying = append(b.flying, mb)
	}
}

// land settles a microbatch in flight and writes what came of it.
func (b *bench) land(i int, token uint32, err error) {
	b.arrive(i, token, err)
	b.write()
}

// arrive settles a microbatch in flight: each sequence whose rows are all in
// gets the token, or the step failed.
func (b *bench) arrive(i int, token uint32, err error) {
	mb := b.flying[i]
	b.flying = append(b.flying[:i], b.flying[i+1:]...)
	mb.err = err
	for j := range mb.parts {
		p := &mb.parts[j]
		if p.s.done+p.rows == len(p.s.ids) {
			p.choices = []sampling.Choice{{ID: token}}
		}
	}
	b.settle(mb)
}

// step is one start and the landing of all that is in flight.
func (b *bench) step(token uint32) {
	b.start()
	for len(b.flying) > 0 {
		b.land(0, token, nil)
	}
}

func book(s *Sequence) *logbook     { l, _ := s.writer.(*logbook); return l }
func delivered(s *Sequence) *parcel { p, _ := s.delivery.Delivery.(*parcel); return p }

// renewed reports whether a sequence's delivery is renewed still.
func (b *bench) renewed(s *Sequence) bool {
	before := delivered(s).renewals
	b.keeper.Renew()
	return delivered(s).renewals > before
}
