package expert

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/policy/claims"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// reporting is a report on a server, and what comes of it there.
type reporting struct {
	*loadReport
	t       *testing.T
	samples chan *nats.Msg
}

func startReporting(t *testing.T, of reportedFunctions) *reporting {
	t.Helper()
	d := testdeployment.Open(t)
	r := &reporting{t: t, samples: make(chan *nats.Msg, 16), loadReport: newLoadReport(reportSettings{
		Deployment: d, Host: "here", Functions: of, Computers: &rooms{}, Device: holding(t),
		Loads: loads.NewCounter(d.Identity.Model, "here", d.Shape.MoE, d.Model.Spec.Experts),
	})}
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	sub, err := d.Conn.NATS().ChanSubscribe(d.Subjects.Load(), r.samples)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return r
}

// next is the next sample on NATS.
func (r *reporting) next() *pb.LoadSample {
	r.t.Helper()
	s := &pb.LoadSample{}
	select {
	case m := <-r.samples:
		if err := proto.Unmarshal(m.Data, s); err != nil {
			r.t.Fatal(err)
		}
	case <-time.After(testkit.Patience):
		r.t.Fatal("no sample")
	}
	return s
}

// What the experts computed is said once, by layer, and all of it to who asks,
// on the subject of loads whatever he names.
func TestLoadSamples(t *testing.T) {
	r := startReporting(t, &rooms{})
	r.Loads.Add(0, []uint32{0, 2})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	defer running.Wait()
	defer cancel()
	s := r.next()
	if s.Host != "here" || s.Model != r.d.Identity.Model || s.Layer != 0 || s.SpanMs == 0 ||
		!slices.Equal(s.Expert, []uint32{0, 2}) || !slices.Equal(s.Rows, []uint64{1, 1}) || !slices.Equal(s.Total, []uint64{1, 1}) {
		t.Errorf("got %v", s)
	}
	elsewhere, err := r.d.Conn.NATS().SubscribeSync("elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = elsewhere.Unsubscribe() }()
	for range 3 {
		if err := r.d.Conn.NATS().PublishRequest(r.d.Subjects.LoadAsk(), "elsewhere", []byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if s = r.next(); !slices.Equal(s.Expert, []uint32{0, 2}) || !slices.Equal(s.Rows, []uint64{0, 0}) || !slices.Equal(s.Total, []uint64{1, 1}) {
		t.Errorf("asked, told %v", s)
	}
	if n, _, err := elsewhere.Pending(); err != nil || n != 0 {
		t.Errorf("%d answers to the subject of an ask: %v", n, err)
	}
	r.Loads.Add(0, []uint32{0, 2})
	for s = r.next(); s.Rows[0] == 0; s = r.next() { // a tick came between the asks
	}
	if !slices.Equal(s.Rows, []uint64{1, 1}) || !slices.Equal(s.Total, []uint64{2, 2}) {
		t.Errorf("computed again, told %v", s)
	}
}

// The sink gets functions and the host's memory, which the copy on NATS has not.
func TestSinkSamples(t *testing.T) {
	functions, got := &rooms{}, &testdeployment.LoadSink{}
	r := startReporting(t, functions)
	r.d.Loads = got
	spec := r.d.Model.Spec
	limits := claims.Limits{Model: r.d.Identity.Model, Layers: spec.Layers, Experts: spec.Experts, TopK: spec.TopK, MoE: r.d.Shape.MoE}
	r.send(t.Context(), time.Second)
	if all := got.Take(); len(all) != 1 || limits.Check(all[0]) != nil || all[0].Memory == nil || len(all[0].Functions) > 0 {
		t.Errorf("without functions: %v", all)
	}
	computed := &pb.FunctionLoad{Id: "0000000000000001", Expert: []uint32{0, 2}, Messages: 1, Rows: 2, ComputeNs: 7}
	idle := &pb.FunctionLoad{Id: "0000000000000002", Expert: []uint32{1}}
	functions.loads = map[uint32][]*pb.FunctionLoad{0: {computed}, 1: {idle}}
	r.Loads.Add(0, []uint32{0, 2})
	r.send(t.Context(), 1500*time.Millisecond)
	if s := r.next(); len(s.Functions) > 0 || s.Memory != nil || s.Number != 0 || len(s.Expert) != 2 {
		t.Errorf("on NATS: %v", s)
	}
	all := got.Take()
	slices.SortFunc(all, func(a, b *pb.LoadSample) int { return int(a.Layer) - int(b.Layer) })
	if len(all) != 2 {
		t.Fatalf("%d samples, want one a layer", len(all))
	}
	for i, want := range []*pb.FunctionLoad{computed, idle} {
		s := all[i]
		if err := limits.Check(s); err != nil || s.SpanMs != 1500 || s.Host != "here" || len(s.Functions) != 1 || !proto.Equal(s.Functions[0], want) {
			t.Errorf("%v: %v", err, s)
		}
		if m := s.Memory; m.GetUsedBytes() != devicetest.Bytes || m.BudgetBytes != 4*devicetest.Bytes || m.Warm != 1 || m.Kept != 2 || m.Cold != 3 ||
			m.ColdStarts != 5 || m.ColdStartNs != uint64(time.Second) || m.Use.GetLoads() != 1 {
			t.Errorf("memory %v", m)
		}
	}
	if len(all[0].Expert) != 2 || len(all[1].Expert) != 0 || !(all[0].Use.GetKeptGbS() > 0) {
		t.Errorf("rows and use: %v", all)
	}
	r.send(t.Context(), 1500*time.Millisecond)
	if again := got.Take(); len(again) != 1 || len(again[0].Functions) > 0 {
		t.Errorf("told again: %v", again)
	}
}
