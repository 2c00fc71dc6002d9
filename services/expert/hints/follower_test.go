package hints

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// seat is a follower with a device of 6 layers of 4 experts.
type seat struct {
	*Follower
	t    *testing.T
	ctx  context.Context // of dispatches
	fake *devicetest.Fake
}

func newSeat(t *testing.T, room int, order ...func(*Settings)) *seat {
	t.Helper()
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, ctx: t.Context()}
	s.fake = devicetest.NewFake(6, 4, device.Settings{Budget: int64(room) * devicetest.Bytes, Loads: 1, Ended: func(e device.Ended) {
		if e.Err == nil {
			s.Loaded(e)
		}
	}})
	with := Settings{
		Device: s.fake, Serves: func(_, expert int) bool { return expert != 3 }, Fetch: true,
		Layers: 6, Experts: 4, Metrics: tel.Metrics.Hosts,
	}
	for _, change := range order {
		change(&with)
	}
	s.Follower = NewFollower(with)
	t.Cleanup(func() {
		s.Close()
		s.fake.Close()
		if n := s.fake.Live() + s.fake.Memory().Used; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
	return s
}

func id(layer, expert int) forward.ExpertID { return forward.ExpertID{Layer: layer, Expert: expert} }

// hint is told of a step that has reached a layer: the experts of a layer, equally probable.
func (s *seat) hint(step uint64, reached, layer int, p float32, experts ...uint32) {
	l := &pb.LayerHint{Layer: uint32(layer), Kind: plan.Routed, Unit: experts}
	for range experts {
		l.Probability = append(l.Probability, p)
	}
	s.Follow(&pb.Hint{Owner: "a", Step: step, Reached: uint32(reached + 1), Layers: []*pb.LayerHint{l}})
}

func (s *seat) rows(step uint64, layer uint32, experts ...uint32) {
	s.Arrived(trace.SpanContextFromContext(s.ctx), &pb.Dispatch{Key: &pb.Key{Owner: "a", Step: step, Layer: layer}, Expert: experts})
}

func (s *seat) await(layer, expert int, want device.Phase) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprintf("%v %v", id(layer, expert), want), func() bool { return s.fake.State(id(layer, expert)).Phase == want })
}

func (s *seat) counted(v *prometheus.CounterVec, want float64, labels ...string) {
	s.t.Helper()
	if n := testkit.Count(s.t, v.WithLabelValues(labels...)); n != want {
		s.t.Errorf("%v: %v, want %v", labels, n, want)
	}
}

// What a hint has loaded is there for its rows, and counts as used once.
func TestFetches(t *testing.T) {
	s := newSeat(t, 0)
	s.hint(1, 0, 2, 0.5, 1)
	s.await(2, 1, device.Warm)
	s.rows(1, 2, 1)
	s.rows(1, 2, 1) // a part, or a repeat
	m := s.Metrics
	s.counted(m.Accesses, 1, "hit", "decode")
	s.counted(m.Prefetched, devicetest.Bytes, "used")
	s.rows(1, 3, 0)
	s.counted(m.Accesses, 1, "miss", "decode")
	s.rows(2, 0, 0)
	s.counted(m.Prefetched, 0, "wasted")
}

// Rows that come during the load find it late; rows that never come make it a waste.
func TestLateOrWasted(t *testing.T) {
	s := newSeat(t, 0)
	let := s.fake.Faults.Hold(id(2, 0))
	defer let()
	s.hint(1, 0, 2, 0.5, 0)
	testkit.Eventually(t, "the load", func() bool { return len(s.fake.Faults.Began()) == 1 })
	s.Arrived(trace.SpanContextFromContext(s.ctx), &pb.Dispatch{Key: &pb.Key{Owner: "a", Step: 1, Layer: 2}, Expert: []uint32{0}, Prefill: true})
	s.counted(s.Metrics.Accesses, 1, "late", "prefill")
	s.counted(s.Metrics.Prefetched, devicetest.Bytes, "late")
	let()
	s.await(2, 0, device.Warm)
	s.hint(2, 0, 2, 0.5, 1)
	s.await(2, 1, device.Warm)
	s.rows(2, 3, 0)
	s.counted(s.Metrics.Prefetched, devicetest.Bytes, "wasted")
	s.counted(s.Metrics.Prefetched, devicetest.Bytes, "late")
}

// The most probable expert for each layer that is left is loaded first, and the order follows
// the step.
func TestOrder(t *testing.T) {
	s := newSeat(t, 0)
	let := s.fake.Faults.Hold(id(5, 2))
	defer let()
	s.hint(1, -1, 5, 1, 2) // is loading while the others come
	testkit.Eventually(t, "the load", func() bool { return len(s.fake.Faults.Began()) == 1 })
	s.hint(1, 0, 4, 0.8, 0) // 0.2 a layer
	s.hint(1, 0, 2, 0.3, 1) // 0.15
	s.hint(1, 0, 3, 0.5, 0) // 0.17
	s.hint(1, 1, 5, 0.9, 0) // 0.3, 0.27, 0.25 and 0.23 by now
	let()
	s.await(5, 0, device.Warm)
	want := fmt.Sprint([]forward.ExpertID{id(5, 2), id(2, 1), id(4, 0), id(3, 0), id(5, 0)})
	if got := fmt.Sprint(s.fake.Faults.Began()); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// What cannot be followed is passed over and counted.
func TestPassesOver(t *testing.T) {
	s := newSeat(t, 0)
	s.rows(5, 2, 0)
	s.hint(5, 2, 2, 1, 0) // is what the gate has chosen
	s.hint(5, 2, 1, 1, 0) // is past
	s.hint(4, 0, 3, 1, 0) // of the step before
	s.hint(5, 2, 3, 1, 3) // served elsewhere
	s.hint(5, 2, 3, 0, 0) // improbable, not impossible
	s.await(3, 0, device.Warm)
	s.hint(5, 2, 3, 1, 0) // is held
	s.counted(s.Metrics.HintedExperts, 2, "reached")
	s.counted(s.Metrics.HintedExperts, 1, "elsewhere")
	s.counted(s.Metrics.HintedExperts, 1, "loading")
	s.Arrived(trace.SpanContextFromContext(s.ctx), &pb.Dispatch{})
	s.Arrived(trace.SpanContextFromContext(s.ctx), &pb.Dispatch{Key: &pb.Key{Owner: "a", Step: 5, Layer: 99}, Expert: []uint32{0}})
	s.Arrived(trace.SpanContextFromContext(s.ctx), &pb.Dispatch{Key: &pb.Key{Owner: "a", Step: 5, Layer: 3}, Expert: []uint32{4, 1 << 31}})
	s.counted(s.Metrics.Accesses, 0, "miss", "prefill")
	s.counted(s.Metrics.Accesses, 1, "miss", "decode")
}

// What is further ahead than there is room for experts waits until it is nearer.
func TestNear(t *testing.T) {
	s := newSeat(t, 0, func(s *Settings) { s.Near = 2 })
	s.hint(1, 0, 3, 1, 0)
	s.counted(s.Metrics.HintedExperts, 1, "roomless")
	s.hint(1, 1, 3, 1, 0)
	s.await(3, 0, device.Warm)
	s.counted(s.Metrics.HintedExperts, 1, "loading")
}

// A hint of a step that there is not keeps no rows from being counted, nor their hints.
func TestForgedStep(t *testing.T) {
	s := newSeat(t, 0)
	s.rows(5, 1, 0)
	s.hint(1<<60, 3, 4, 1, 0)
	s.await(4, 0, device.Warm)
	s.rows(5, 2, 1)
	s.counted(s.Metrics.Accesses, 2, "miss", "decode")
	s.hint(5, 2, 3, 1, 1)
	s.await(3, 1, device.Warm)
	s.rows(4, 3, 2) // a repeat of the step before
	s.counted(s.Metrics.Accesses, 2, "miss", "decode")
}

// A layer that is reached needs no load that has not begun: rows ask for it, or none come.
func TestDropsReached(t *testing.T) {
	s := newSeat(t, 0)
	let := s.fake.Faults.Hold(id(4, 0))
	defer let()
	s.hint(1, -1, 4, 1, 0)
	testkit.Eventually(t, "the load", func() bool { return len(s.fake.Faults.Began()) == 1 })
	s.hint(1, -1, 2, 1, 1, 2)
	s.rows(1, 2, 1)
	let()
	s.await(4, 0, device.Warm)
	if n := len(s.fake.Faults.Began()); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// A load for a hint gives its room to rows, and is begun anew; one that waits has none to give.
func TestYield(t *testing.T) {
	s := newSeat(t, 2)
	end := s.fake.Faults.Hold(id(5, 2))
	defer end()
	rows := s.fake.Load(t.Context(), id(5, 2), device.Demanded)
	defer rows.Release()
	testkit.Eventually(t, "the load", func() bool { return len(s.fake.Faults.Began()) == 1 })
	s.hint(1, 0, 3, 0.5, 0)
	if s.Yield(1) {
		t.Error("what waits has given room")
	}
	let := s.fake.Faults.Hold(id(3, 0))
	defer let()
	end()
	testkit.Eventually(t, "the load for the hint", func() bool { return len(s.fake.Faults.Began()) == 2 })
	if !s.Yield(1) {
		t.Error("a load has given nothing")
	}
	s.await(3, 0, device.Cold)
	let()
	s.rows(1, 1, 1)
	s.await(3, 0, device.Warm)
	s.given(3, 0)
	if s.Yield(1) {
		t.Error("what is loaded is the order's to give")
	}
}

// given waits until no hint has an expert.
func (s *seat) given(layer, expert int) {
	s.t.Helper()
	testkit.Eventually(s.t, "it is given back", func() bool { return s.fake.State(id(layer, expert)).Tickets == 0 })
}

// A hint that finds no room is followed when rows have given some back.
func TestRoomless(t *testing.T) {
	s := newSeat(t, 1)
	ticket := s.fake.Load(t.Context(), id(0, 0), device.Demanded)
	<-ticket.Done()
	s.hint(1, 0, 2, 1, 1)
	s.counted(s.Metrics.HintedExperts, 1, "roomless")
	s.Done()
	s.counted(s.Metrics.HintedExperts, 2, "roomless")
	ticket.Release()
	s.Done()
	s.await(2, 1, device.Warm)
	s.Done()
	if n := len(s.fake.Faults.Began()); n != 2 {
		t.Errorf("%d loads", n)
	}
}

// Of hints that come together, and of those that have found no room, the one that is worth most has it.
func TestBestFirst(t *testing.T) {
	all := &pb.Hint{Owner: "a", Step: 1, Reached: 1}
	for layer := uint32(5); layer > 0; layer-- {
		all.Layers = append(all.Layers, &pb.LayerHint{Layer: layer, Kind: plan.Routed, Unit: []uint32{0, 1, 2}, Probability: []float32{0.8, 0.7, 0.9}})
	}
	for name, room := range map[string]bool{"together": true, "without room": false} {
		s := newSeat(t, 1)
		if room {
			s.Follow(all)
		} else {
			ticket := s.fake.Load(t.Context(), id(0, 0), device.Demanded)
			<-ticket.Done()
			s.Follow(all)
			ticket.Release()
			s.Done()
		}
		s.await(1, 2, device.Warm)
		if began := s.fake.Faults.Began(); began[len(began)-1] != id(1, 2) {
			t.Errorf("%s: loads of %v", name, began)
		}
	}
}

// What a hint has loaded holds no room for it: where the order lets another one have that, it is wasted.
func TestLoaded(t *testing.T) {
	s := newSeat(t, 1)
	s.hint(1, 0, 2, 1, 1)
	s.await(2, 1, device.Warm)
	s.Loaded(device.Ended{ID: id(5, 0)}) // which no hint names
	s.given(2, 1)
	ticket := s.fake.Load(t.Context(), id(0, 0), device.Demanded)
	<-ticket.Done()
	s.rows(1, 2, 1)
	s.counted(s.Metrics.Accesses, 1, "miss", "decode")
	s.counted(s.Metrics.Prefetched, devicetest.Bytes, "wasted")
	ticket.Release()
}

// However many hints and microbatches come, no more than so many are remembered.
func TestBounds(t *testing.T) {
	s := newSeat(t, 1)
	const owners = maxFlows + 50
	var all sync.WaitGroup
	for i := range owners {
		all.Go(func() {
			for layer := range 6 {
				l := &pb.LayerHint{Layer: uint32(layer), Kind: plan.Routed, Unit: []uint32{0, 1, 2}, Probability: []float32{1, 1, 1}}
				s.Follow(&pb.Hint{Owner: fmt.Sprint("a", i), Layers: []*pb.LayerHint{l}})
			}
			s.Follow(&pb.Hint{Owner: "b"})
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.flows) > maxFlows || s.live > maxWants || len(s.line) > 2*maxWants+1 {
		t.Errorf("%d flows, %d wants, %d in line", len(s.flows), s.live, len(s.line))
	}
	live := 0
	for _, fl := range s.flows {
		live += len(fl.wants)
	}
	if live != s.live {
		t.Errorf("%d wants, counted %d", live, s.live)
	}
}

// What nothing comes of any more is forgotten.
func TestForgets(t *testing.T) {
	s := newSeat(t, 1)
	s.hint(1, 0, 3, 1, 0)
	s.await(3, 0, device.Warm)
	s.mu.Lock()
	seen := s.flows[flowID{owner: "a"}].seen
	s.mu.Unlock()
	s.forget(seen.Add(staleAfter))
	if len(s.flows) != 1 {
		t.Error("it is forgotten early")
	}
	s.forget(seen.Add(staleAfter + 1))
	if len(s.flows) != 0 || s.fake.State(id(3, 0)).Tickets != 0 {
		t.Error("it is not forgotten")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
}

// Hosts that do not follow hints count how rows find their experts all the same.
func TestCountsAlone(t *testing.T) {
	s := newSeat(t, 0, func(s *Settings) { s.Fetch = false })
	s.hint(1, 0, 3, 1, 0)
	s.rows(1, 3, 0)
	s.counted(s.Metrics.Accesses, 1, "miss", "decode")
	if n := len(s.fake.Faults.Began()); n != 0 {
		t.Errorf("%d loads", n)
	}
	s.Stalled(&pb.Dispatch{}, 2e9)
	s.counted(s.Metrics.Stalls, 2, "decode")
}

// What hints say of the next step the order knows from the layer on that the step has passed, and
// nothing is loaded for it.
func TestNextStep(t *testing.T) {
	outlook, err := residency.NewOutlook(6, 4, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := newSeat(t, 0, func(s *Settings) { s.Outlook = outlook })
	for _, layer := range []uint32{2, 3} {
		s.Follow(&pb.Hint{Owner: "a", Step: 1, Reached: 3, Layers: []*pb.LayerHint{
			{Layer: layer, Kind: plan.Routed, StepsAhead: 1, Unit: []uint32{1}, Probability: []float32{0.75}},
		}})
	}
	s.Device.Reorder(func() {
		if p, told := outlook.Chance(unit.Expert(2, 1)); !told || p != 0.75 {
			t.Errorf("of a layer that is passed %v is known: %v", p, told)
		}
		if _, told := outlook.Chance(unit.Expert(3, 1)); told {
			t.Error("of a layer that is still to come this step is told what the next one asks")
		}
	})
	if n := len(s.fake.Faults.Began()); n != 0 {
		t.Errorf("%d loads", n)
	}
}

// What hints want for the next step is loaded when its layer is near, and is found when the step comes there.
func TestLoadsForNextStep(t *testing.T) {
	s := newSeat(t, 0, func(s *Settings) { s.Near = 3 })
	next := func(layer, unit uint32) {
		s.Follow(&pb.Hint{Owner: "a", Step: 1, Reached: 5, Layers: []*pb.LayerHint{
			{Layer: layer, Kind: plan.Routed, StepsAhead: 1, Unit: []uint32{unit}, Probability: []float32{0.75}, Wanted: 1},
		}})
	}
	s.rows(1, 4, 0)
	next(0, 1)
	next(0, 3) // is served elsewhere
	next(2, 1) // is too far
	next(4, 1) // is not over
	s.await(0, 1, device.Warm)
	s.rows(1, 5, 0)
	s.rows(1, 0, 1) // a repeat of this step's
	m := s.Metrics
	s.counted(m.Prefetched, 0, "used")
	s.rows(3, 0, 1) // another microbatch had the step between
	s.counted(m.Prefetched, devicetest.Bytes, "used")
	s.counted(m.HintedExperts, 1, "roomless")
	s.counted(m.HintedExperts, 1, "reached")
	if n := len(s.fake.Faults.Began()); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// What was loaded for the next step and went again is loaded anew for a hint of that step.
func TestGoneBeforeTheStep(t *testing.T) {
	s := newSeat(t, 1)
	s.rows(1, 5, 0)
	s.Follow(&pb.Hint{Owner: "a", Step: 1, Reached: 6, Layers: []*pb.LayerHint{
		{Layer: 1, Kind: plan.Routed, StepsAhead: 1, Unit: []uint32{1}, Probability: []float32{0.75}, Wanted: 1},
	}})
	s.await(1, 1, device.Warm)
	s.given(1, 1)
	ticket := s.fake.Load(t.Context(), id(0, 0), device.Demanded)
	<-ticket.Done()
	ticket.Release()
	s.await(1, 1, device.Cold)
	s.hint(2, -1, 1, 0.5, 1)
	s.await(1, 1, device.Warm)
	s.counted(s.Metrics.Prefetched, devicetest.Bytes, "wasted")
}

// What loads of a layer whose gate has not chosen it is given up, and the link is free; what the gate has chosen goes on.
func TestChosen(t *testing.T) {
	for _, chosen := range []bool{false, true} {
		s := newSeat(t, 0)
		let := s.fake.Faults.Hold(id(2, 0))
		s.hint(1, 0, 2, 0.5, 0)
		testkit.Eventually(t, "the load", func() bool { return len(s.fake.Faults.Began()) == 1 })
		s.hint(1, 0, 3, 0.3, 0)
		all := &pb.LayerHint{Layer: 2, Kind: plan.Routed, Unit: []uint32{0, 1}, Probability: []float32{0, 1}}
		if chosen {
			all.Probability = []float32{1, 0}
		}
		s.Follow(&pb.Hint{Owner: "a", Step: 1, Reached: 3, Layers: []*pb.LayerHint{all}})
		if !chosen {
			s.await(3, 0, device.Warm)
			s.counted(s.Metrics.Prefetched, devicetest.Bytes, "cancelled")
		}
		let()
		s.await(3, 0, device.Warm)
		if warm := s.fake.State(id(2, 0)).Phase == device.Warm; warm != chosen {
			t.Errorf("chosen %v, there %v", chosen, warm)
		}
		s.counted(s.Metrics.HintedExperts, 0, "reached")
	}
}

// How much later than its rows the hint comes that is made at their gate counts once a layer.
func TestLag(t *testing.T) {
	s := newSeat(t, 0)
	of := func(v *prometheus.HistogramVec, want uint64) {
		t.Helper()
		var m dto.Metric
		h, ok := v.WithLabelValues("decode").(prometheus.Histogram)
		if !ok {
			t.Fatal("no histogram")
		}
		if err := h.Write(&m); err != nil || m.Histogram.GetSampleCount() != want {
			t.Errorf("%d are seen, want %d; %v", m.Histogram.GetSampleCount(), want, err)
		}
	}
	seen := func(want uint64) {
		t.Helper()
		of(s.Metrics.HintLag, want)
	}
	s.hint(1, -1, 1, 0.5, 0) // before the first layer: it is made at no gate
	s.rows(1, 0, 0)
	seen(0)
	of(s.Metrics.HintLead, 1)
	s.hint(1, -1, 2, 0.5, 0) // a further one: the lead was that of the first
	of(s.Metrics.HintLead, 1)
	s.hint(1, 0, 2, 0.5, 0)
	s.hint(1, 0, 3, 0.5, 0)
	s.rows(1, 0, 1)
	seen(1)
	s.hint(1, 1, 3, 0.5, 1) // comes first
	s.rows(1, 1, 0)
	s.rows(1, 1, 1)
	seen(2)
	s.rows(1, 2, 0)
	s.rows(2, 0, 0)
	s.hint(1, 2, 4, 0.5, 1) // of a step that is over
	seen(2)
	s.hint(2, -1, 1, 0.5, 0) // comes when the rows are there
	s.hint(2, -1, 2, 0.5, 0)
	s.rows(3, 1, 0)
	of(s.Metrics.HintLead, 2)
}
