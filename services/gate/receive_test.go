package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// track is a gate with everything around it played by the test: attention, which
// gets refusals, and the hosts of the one function that layer 0 has.
type track struct {
	*Service
	t          *testing.T
	d          *deployment.Deployment
	dispatches *testdeployment.Received[*pb.Dispatch]
	refusals   *testdeployment.Received[*pb.Block]
}

var allExperts = []uint32{0, 1, 2, 3}

func newTrack(t *testing.T) *track {
	t.Helper()
	d := testdeployment.Open(t)
	s := New(d, Config{})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	id := plan.FunctionID(0, allExperts, plan.Routed)
	return &track{
		Service: s, t: t, d: d,
		dispatches: testdeployment.Listen[*pb.Dispatch](t, d, bus.Receiver{
			Stream: d.Streams.Expert(0), Name: id, Subject: d.Subjects.Expert(0, id),
		}),
		refusals: testdeployment.Listen[*pb.Block](t, d, bus.Receiver{
			Stream: d.Streams.Block(), Name: "attention-1", Subject: d.Subjects.Block("attention-1"), Sole: true,
		}),
	}
}

// planned gives the gate a plan, with changed functions, and the host that serves it.
func (k *track) planned(change ...func(*pb.Function)) {
	k.t.Helper()
	hosts := said{}
	k.plan.states = hosts
	k.plan.members(map[string]bool{"expert-1": false})
	layers := k.d.MoELayers()
	for _, layer := range layers {
		f := plan.Function(layer, allExperts, "expert-1")
		for _, fn := range change {
			fn(f)
		}
		hosts.put(layer, f.Id, planstore.Replica{Host: "expert-1", Phase: pb.FunctionPhase_FUNCTION_PHASE_WARM, Joined: true})
		l, err := plan.Rules{MoELayers: layers, Experts: k.d.Model.Spec.Experts}.Check(&pb.LayerPlan{Layer: uint32(layer), Functions: []*pb.Function{f}})
		if err != nil {
			k.t.Fatal(err)
		}
		k.plan.offer(l)
	}
}

// rows are hidden rows of a step.
func (k *track) rows(step uint64, n int) *pb.Hidden {
	d := k.d.Model.Spec.Hidden
	x := make([]float32, n*d)
	for i := range x {
		x[i] = float32(i%11) - 5
	}
	return &pb.Hidden{
		Key:    &pb.Key{Version: schemas.Version, Model: k.d.Identity.Model, Owner: "attention-1", Step: step, Rows: uint32(n), Aggregator: "aggregator-1"},
		Tensor: tensor.Encode(tensor.BF16, x, d, nil),
		Phases: []*pb.PhaseRange{{Phase: pb.Phase_PHASE_DECODE, Rows: uint32(n)}},
	}
}

func (k *track) handle(h *pb.Hidden) error {
	body, err := proto.Marshal(h)
	if err != nil {
		k.t.Fatal(err)
	}
	return k.receive(k.t.Context(), &bus.Msg{Data: body})
}

// Rows that come before there is a plan are an error to try again after, not a
// refusal; issued again once there is one, they are routed.
func TestReceiveBeforeThePlan(t *testing.T) {
	k := newTrack(t)
	h := k.rows(1, 3)
	if err := k.handle(h); err == nil {
		t.Fatal("rows were routed without a plan")
	}
	k.planned()
	if err := k.handle(h); err != nil {
		t.Fatal(err)
	}
	if got := k.dispatches.Take(t, 1); len(got[0].Expert) != 3*k.d.Model.Spec.TopK || len(k.refusals.All()) > 0 {
		t.Errorf("%d routed rows; refusals %v", len(got[0].Expert), k.refusals.All())
	}
}

// What cannot be routed is refused to its owner, by name, and the rows behind it
// get what they would have got.
func TestReceiveRefuses(t *testing.T) {
	k := newTrack(t)
	k.planned()
	if err := k.handle(k.rows(1, 2)); err != nil {
		t.Fatal(err)
	}
	want := k.dispatches.Take(t, 1)[0]
	for name, change := range map[string]func(*pb.Hidden){
		"another model":     func(h *pb.Hidden) { h.Key.Model++ },
		"another version":   func(h *pb.Hidden) { h.Key.Version++ },
		"no tensor":         func(h *pb.Hidden) { h.Tensor = nil },
		"other width":       func(h *pb.Hidden) { h.Tensor.Cols, h.Tensor.Rows = h.Tensor.Cols/2, 2*h.Tensor.Rows },
		"fewer rows":        func(h *pb.Hidden) { h.Key.Rows = 3 },
		"no such layer":     func(h *pb.Hidden) { h.Key.Layer = 1000 },
		"cut in the middle": func(h *pb.Hidden) { h.Tensor.Data = h.Tensor.Data[1:] },
	} {
		before := len(k.refusals.All())
		h, code := k.rows(2, 2), "internal"
		change(h)
		if strings.HasPrefix(name, "another") { // a gate of its own kind is to have it
			code = wire.Elsewhere
		}
		if err := k.handle(h); err == nil {
			t.Errorf("%s: routed", name)
		}
		if last := k.refusals.Take(t, before+1)[before]; last.Error.GetCode() != code || !strings.HasPrefix(last.Error.Message, k.id) || last.Key.Step != 2 {
			t.Errorf("%s: told %v", name, last)
		}
	}
	if err := k.handle(k.rows(3, 2)); err != nil {
		t.Fatal(err)
	}
	got := k.dispatches.Take(t, 2)
	if len(got) != 2 || !slices.Equal(got[1].Expert, want.Expert) || !slices.Equal(got[1].Weight, want.Weight) || string(got[1].Tensor.Data) != string(want.Tensor.Data) {
		t.Errorf("%v\nwant %v", got[1:], want)
	}
}

// gatesThatFail are on a device that refuses the next launches.
type gatesThatFail struct {
	forward.Gates
	times int
}

func (g *gatesThatFail) Route(layer int, x []float32, out *forward.Routes) error {
	if g.times--; g.times >= 0 {
		return &forward.DeviceError{Err: errors.New("a launch was refused")}
	}
	return g.Gates.Route(layer, x, out)
}

// A device that fails is not the rows' fault: nobody is told that they are bad, and they
// can come again.
func TestReceiveOnFailingDevice(t *testing.T) {
	k := newTrack(t)
	k.planned()
	k.gates = &gatesThatFail{k.gates, 1}
	for _, fails := range []bool{true, false} {
		if err := k.handle(k.rows(1, 2)); (err != nil) != fails {
			t.Fatal(err)
		}
	}
	if got := k.dispatches.Take(t, 1); len(got) != 1 || len(k.refusals.All()) > 0 {
		t.Errorf("%d dispatches; refusals %v", len(got), k.refusals.All())
	}
}

// Bytes that are no message, and owners that nobody may be told at, cost the gate
// nothing: it goes on.
func TestReceiveGarbage(t *testing.T) {
	k := newTrack(t)
	k.planned()
	for _, owner := range []string{"", "a.b", ">", "attention-1.x"} {
		h := k.rows(1, 1)
		h.Key.Owner, h.Tensor = owner, nil
		if err := k.handle(h); err == nil {
			t.Errorf("owner %q: routed", owner)
		}
	}
	for _, body := range [][]byte{nil, {0xff}, []byte("text")} {
		if err := k.receive(t.Context(), &bus.Msg{Data: body}); err == nil {
			t.Errorf("%q was routed", body)
		}
	}
	if err := k.handle(k.rows(2, 1)); err != nil {
		t.Error(err)
	}
	k.dispatches.Take(t, 1)
	if got := k.refusals.All(); len(got) > 0 {
		t.Errorf("told %v", got)
	}
}

// A dispatch that cannot be sent is an error that is not the message's: nobody is
// told that the rows are bad, and they can come again.
func TestReceiveWithoutConnection(t *testing.T) {
	k := newTrack(t)
	k.planned()
	body, err := proto.Marshal(k.rows(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	k.d.Conn.Close()
	if err := k.receive(t.Context(), &bus.Msg{Data: body}); err == nil {
		t.Error("sent without a connection")
	}
}
