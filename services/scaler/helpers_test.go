package scaler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/control/planner"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// topic is a fake of Kafka: what is sent comes to whoever consumes.
type topic struct {
	mu      sync.Mutex
	readers map[string]func(*pb.LoadSample)
	most    int // consumers at a time
	number  uint64
}

// samples is one member of the group.
type samples struct {
	*topic
	id string
}

// Consume implements Samples.
func (s samples) Consume(ctx context.Context, handle func(*pb.LoadSample)) error {
	s.mu.Lock()
	if s.readers == nil {
		s.readers = map[string]func(*pb.LoadSample){}
	}
	s.readers[s.id] = handle
	s.most = max(s.most, len(s.readers))
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, s.id)
	return nil
}

// members are those who consume.
func (t *topic) members() (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.readers {
		ids = append(ids, id)
	}
	return ids
}

// send hands a sample to all who consume.
func (t *topic) send(s *pb.LoadSample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	s.Number = t.number
	for _, handle := range t.readers {
		handle(s)
	}
}

// stage is a deployment with hosts that only say that they are here.
type stage struct {
	t     *testing.T
	d     *deployment.Deployment
	hosts int
	topic topic
	log   lines

	experts []*deployment.Presence
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// newStage has hosts announce themselves, when the deployment is as set makes it.
func newStage(t *testing.T, hosts int, set ...func(*deployment.Deployment)) *stage {
	y := &stage{t: t, d: testdeployment.Open(t), hosts: hosts}
	y.d.Logger = slog.New(slog.NewTextHandler(&y.log, nil))
	for _, s := range set {
		s(y.d)
	}
	for i := range hosts {
		p := y.d.NewPresence(fmt.Sprintf("expert-%d", i), "expert")
		y.experts = append(y.experts, p)
		run(t, func(ctx context.Context) {
			if _, err := p.Watch(ctx); err != nil {
				t.Error(err)
			}
			if err := p.Announce(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return y
}

// apart lets each expert be a function of its own.
func (y *stage) apart() {
	y.t.Helper()
	if _, err := y.d.Plans.ChangeSettings(y.t.Context(), plan.Settings{Grouping: plan.ByExpert}); err != nil {
		y.t.Fatal(err)
	}
}

// settled waits for a plan of all hosts: the first plan of a deployment is for those
// that are heard first.
func (y *stage) settled() {
	y.t.Helper()
	testkit.Eventually(y.t, "a plan of all hosts", func() bool {
		state, err := y.d.Plans.Read(y.t.Context())
		return err == nil && len(plan.Hosts(state.Layers())) == y.hosts
	})
}

// run lets something run until the test ends, or it is stopped.
func run(t *testing.T, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

func testConfig() Config {
	return Config{Scaling: "moeless", CV: 0.2, MemoryCap: 1 << 30, KeepAlive: time.Minute, ZeroAfter: time.Minute, Horizon: 10 * time.Second}
}

// scaler runs one.
func (y *stage) scaler(c Config) (s *Service, stop func()) {
	y.t.Helper()
	s = y.prepare(c)
	return s, run(y.t, func(ctx context.Context) {
		if err := s.Run(ctx); err != nil {
			y.t.Error(err)
		}
		if err := s.Stop(context.Background()); err != nil {
			y.t.Error(err)
		}
	})
}

func (y *stage) prepare(c Config) *Service {
	y.t.Helper()
	s := New(y.d, c)
	if err := s.start(y.t.Context(), samples{&y.topic, s.id}); err != nil {
		y.t.Fatal(err)
	}
	return s
}

// hold runs a planner of a scaler with a lease of the test's.
func (y *stage) hold(s *Service, l planner.Lease) {
	run(y.t, func(ctx context.Context) {
		defer func() { _ = s.Stop(ctx) }()
		var announcing sync.WaitGroup
		defer announcing.Wait()
		announcing.Go(func() { _ = s.presence.Announce(ctx) })
		s.planner(l).Run(ctx)
	})
}

// layer is the plan of the first layer with experts.
func (y *stage) layer() *pb.LayerPlan {
	state, err := y.d.Plans.Read(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	return state[y.d.MoELayers()[0]].Raw
}

// replicas are those of an expert that are wanted warm.
func replicas(lp *pb.LayerPlan, expert uint32) (n int) {
	for _, f := range lp.GetFunctions() {
		for _, e := range f.Experts {
			for _, p := range f.Placements {
				if e == expert && p.Want == pb.Want_WANT_WARM {
					n++
				}
			}
		}
	}
	return n
}

// rows says that an expert has all rows of a microbatch, and its neighbours those
// of the other slots.
func (y *stage) rows(expert, rows uint32) {
	spec := y.d.Model.Spec
	step := &pb.StepLoad{Owner: "attention-a", Rows: rows}
	for slot := range spec.TopK {
		e := (int(expert) + slot) % spec.Experts
		step.Expert, step.Count = append(step.Expert, uint32(e)), append(step.Count, rows)
	}
	if last := len(step.Expert) - 1; step.Expert[last] < step.Expert[0] {
		y.t.Fatalf("experts %v do not ascend", step.Expert)
	}
	y.topic.send(&pb.LoadSample{
		Version: schemas.Version, Model: y.d.Identity.Model, Host: "gate-a", Layer: uint32(y.d.MoELayers()[0]), SpanMs: 10,
		Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{step},
	})
}

// unhurried follows the plans. What it returns wants none to have been written in which an expert has
// more than one replica: a host that is late changes plans, too, but to no more replicas.
func (y *stage) unhurried(expert uint32) (check func()) {
	y.t.Helper()
	written := make(chan *nats.Msg, 1<<12)
	nc := y.d.Conn.NATS()
	_, err := nc.ChanSubscribe(bus.KeySubject(y.d.Streams.Bucket("plans"), "*"), written)
	flush := func() {
		y.t.Helper()
		if err = errors.Join(err, nc.FlushTimeout(testkit.Patience)); err != nil {
			y.t.Fatal(err)
		}
	}
	flush()
	return func() {
		y.t.Helper()
		flush()
		for range len(written) {
			lp := &pb.LayerPlan{}
			if proto.Unmarshal((<-written).Data, lp) == nil && replicas(lp, expert) > 1 {
				y.t.Errorf("a plan had %d replicas of expert %d: %s", replicas(lp, expert), expert, lp.Reason)
			}
		}
	}
}

// await lets rows come until something is so.
func (y *stage) await(what string, expert uint32, is func(*pb.LayerPlan) bool) {
	y.t.Helper()
	testkit.Eventually(y.t, what, func() bool {
		y.rows(expert, 1000)
		return is(y.layer())
	})
}

// stubborn is the lease of a scaler that was suspended while another one took it:
// it believes that it holds it still.
type stubborn struct {
	epoch uint64
	holds func(context.Context) (bool, error)
}

// Hold implements planner.Lease.
func (l stubborn) Hold(ctx context.Context, fn func(context.Context, planstore.Writer) error) error {
	return fn(ctx, planstore.Writer{Epoch: l.epoch, Holds: l.holds})
}
