package expert

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// server is a host on a device with faults, and those around it played by the
// test: the aggregator, which gets partials, and attention, which gets refusals.
type server struct {
	*Service
	t        *testing.T
	d        *deployment.Deployment
	fake     *devicetest.Fake
	f        *function // experts 0 and 1 of layer 0
	partials *testdeployment.Received[*pb.Partial]
	refusals *testdeployment.Received[*pb.Block]
}

func newServer(t *testing.T) *server {
	t.Helper()
	d := testdeployment.Open(t)
	spec := d.Model.Spec
	fake := devicetest.NewFake(spec.Layers, spec.Experts, device.Settings{})
	t.Cleanup(fake.Close)
	s := newOn(fake, d, Config{})
	return &server{
		Service: s, t: t, d: d, fake: fake,
		f: s.newFunction(0, plan.Function(0, []uint32{0, 1})),
		partials: testdeployment.Listen[*pb.Partial](t, d, bus.Receiver{
			Stream: d.Streams.Partial(), Name: "a", Subject: d.Subjects.Partial("a"), Private: true,
		}),
		refusals: testdeployment.Listen[*pb.Block](t, d, bus.Receiver{
			Stream: d.Streams.Block(), Name: "attention-1", Subject: d.Subjects.Block("attention-1"), Private: true,
		}),
	}
}

// warm loads the function's experts.
func (s *server) warm() {
	s.t.Helper()
	s.f.load(s.t.Context(), s.fake, 1)
	for _, ticket := range s.f.experts {
		if err := ticket.Wait(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) rows(step uint64) *pb.Dispatch {
	d := dispatch(tensor.BF16, s.d.Model.Spec.Hidden, 0, 1, 1)
	d.Key.Model, d.Key.Step, d.Function = s.d.Identity.Model, step, s.f.spec.Id
	return d
}

func (s *server) serve(ctx context.Context, d *pb.Dispatch) error {
	body, err := proto.Marshal(d)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.receive(ctx, &bus.Msg{Data: body}, s.f)
}

// Rows whose expert is gone, as when the device dropped it, are no refusal: they
// may come again, and are served when the expert is back.
func TestServeWithoutAnExpert(t *testing.T) {
	s := newServer(t)
	if err := s.serve(t.Context(), s.rows(1)); err == nil {
		t.Fatal("computed with cold experts")
	}
	s.warm()
	if err := s.serve(t.Context(), s.rows(1)); err != nil {
		t.Fatal(err)
	}
	got := s.partials.Take(t, 1)
	if len(got) != 1 || !slices.Equal(got[0].Place, []uint32{0, 1, 2}) {
		t.Errorf("%v", got)
	}
	if refused := s.refusals.All(); len(refused) > 0 {
		t.Errorf("told %v", refused)
	}
	if loads := s.loads.Take(time.Second, false); len(loads) != 1 || !slices.Equal(loads[0].Expert, []uint32{0, 1}) || !slices.Equal(loads[0].Rows, []uint64{1, 2}) {
		t.Errorf("loads are %v: what failed does not count", loads)
	}
}

// What can never be computed is refused to its owner, and the rows behind it get
// what they would have got.
func TestServeRefuses(t *testing.T) {
	s := newServer(t)
	s.warm()
	for name, change := range map[string]func(*pb.Dispatch){
		"another model":  func(d *pb.Dispatch) { d.Key.Model++ },
		"no tensor":      func(d *pb.Dispatch) { d.Tensor = nil },
		"fewer weights":  func(d *pb.Dispatch) { d.Weight = d.Weight[:1] },
		"no such expert": func(d *pb.Dispatch) { d.Expert[0] = 1 << 20 },
		"no such layer":  func(d *pb.Dispatch) { d.Key.Layer = 1 << 20 },
		"no such row":    func(d *pb.Dispatch) { d.Place[2] = 1 << 30 },
	} {
		before := len(s.refusals.All())
		d := s.rows(2)
		change(d)
		if err := s.serve(t.Context(), d); err == nil {
			t.Errorf("%s: computed", name)
		}
		if last := s.refusals.Take(t, before+1)[before]; last.Error.GetMessage() == "" || last.Key.GetStep() != 2 {
			t.Errorf("%s: told %v", name, last)
		}
	}
	if err := s.serve(t.Context(), s.rows(3)); err != nil {
		t.Fatal(err)
	}
	if got := s.partials.Take(t, 1); len(got) != 1 || got[0].Key.Step != 3 {
		t.Errorf("%v", got)
	}
}

// An expert that computes is not taken away beneath its rows, and one whose rows
// failed is not held for ever.
func TestServeHoldsNothing(t *testing.T) {
	s := newServer(t)
	s.warm()
	bad := s.rows(1)
	bad.Expert[2] = 3 // cold
	if err := s.serve(t.Context(), bad); err == nil {
		t.Fatal("computed with a cold expert")
	}
	for _, ticket := range s.f.experts {
		ticket.Release()
	}
	for e := range 2 {
		if err := s.fake.Evict(forward.ExpertID{Expert: e}); err != nil {
			t.Error(err)
		}
	}
}

// A partial that cannot be sent is an error that is not the rows' own.
func TestServeWithoutConnection(t *testing.T) {
	s := newServer(t)
	s.warm()
	s.d.Conn.Close()
	if err := s.serve(t.Context(), s.rows(1)); err == nil || isPermanent(err) {
		t.Errorf("%v", err)
	}
}
