package aggregator

import (
	"context"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// track is an aggregator with everything around it played by the test.
type track struct {
	*Service
	t      *testing.T
	d      *deployment.Deployment
	link   *transfer.Link // of gate and host
	sent   *testdeployment.Received[*pb.Dispatch]
	blocks *testdeployment.Received[*pb.Block]
}

func newTrack(t *testing.T) *track {
	t.Helper()
	d := testdeployment.Open(t)
	if err := d.EnsureObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := New(d)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &track{
		Service: s, t: t, d: d, link: d.Rows(nil),
		sent:   testdeployment.Listen[*pb.Dispatch](t, d, bus.Receiver{Stream: d.Streams.Expert(0), Name: "f", Subject: d.Subjects.Expert(0, "f")}),
		blocks: testdeployment.Listen[*pb.Block](t, d, bus.Receiver{Stream: d.Streams.Block(), Name: "attention-1", Subject: d.Subjects.Block("attention-1"), Sole: true}),
	}
}

// host has a group of rows computed by a host that adds nothing to them.
func (k *track) host(step uint64, rows int) {
	k.t.Helper()
	shape := k.d.Shape
	d := &pb.Dispatch{Key: &pb.Key{Version: schemas.Version, Model: k.d.Identity.Model, Owner: "attention-1", Step: step, Rows: uint32(rows), Aggregator: k.id}}
	for place := range rows * shape.TopK {
		d.Place, d.Expert, d.Weight = append(d.Place, uint32(place)), append(d.Expert, 0), append(d.Weight, 1)
	}
	x := make([]float32, rows*shape.Hidden)
	for i := range x {
		x[i] = float32(i % 7)
	}
	d.Tensor = tensor.Encode(k.d.Wire, x, shape.Hidden, nil)
	before := len(k.sent.All())
	to := transfer.Address{Subject: k.d.Subjects.Expert(0, "f"), Function: "f"}
	if err := k.link.By(plan.Pipelined, 2).Scatter(k.t.Context(), to, d); err != nil {
		k.t.Fatal(err)
	}
	d = k.sent.Take(k.t, before+1)[before]
	err := k.link.Of(d.Parcel).Serve(k.t.Context(), k.d.Subjects.Partial(k.id), d, false, func(_ context.Context, d *pb.Dispatch, _ time.Duration, then func(*pb.Partial) error) error {
		p := &pb.Partial{Key: d.Key, Place: d.Place, Tensor: &pb.Tensor{Dtype: d.Tensor.Dtype, Rows: uint32(len(d.Place)), Cols: d.Tensor.Cols}}
		row := len(d.Tensor.Data) / int(d.Tensor.Rows)
		for i := range d.Place {
			at := i / shape.TopK
			p.Tensor.Data = append(p.Tensor.Data, d.Tensor.Data[at*row:(at+1)*row]...)
		}
		return then(p)
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

// objects is how many there are.
func (k *track) objects() int {
	state, err := k.d.Conn.State(k.t.Context(), k.d.Streams.Objects().Name)
	if err != nil {
		k.t.Error(err)
	}
	return int(state.Messages)
}

// Outputs in objects are summed as those in messages are, and no object is left.
func TestGather(t *testing.T) {
	k := newTrack(t)
	const rows = 5
	for step := range uint64(3) {
		k.host(step, rows)
	}
	want := float32(k.d.Shape.TopK)
	for _, b := range k.blocks.Take(t, 3) {
		sum := make([]float32, rows*k.d.Shape.Hidden)
		if err := tensor.Decode(sum, b.Tensor, k.d.Shape.Hidden); err != nil || b.Error != nil {
			t.Fatal(err, b.Error)
		}
		for i, x := range sum {
			if x != want*float32(i%7) {
				t.Fatalf("element %d is %v", i, x)
			}
		}
	}
	testkit.Eventually(t, "no object is left", func() bool { return k.objects() == 0 })
}

// Rows whose outputs are gone are given back to their owner; what comes too late is not, and removes what was
// stored for it.
func TestGatherLost(t *testing.T) {
	k := newTrack(t)
	k.host(1, 2)
	k.blocks.Take(t, 1)
	late := &pb.Partial{
		Key:    &pb.Key{Version: schemas.Version, Model: k.d.Identity.Model, Owner: "attention-1", Step: 1, Rows: 2},
		Parcel: &pb.Parcel{Mode: plan.Indirect, Pieces: []*pb.Piece{{Name: "f.0.o.0.00", Sha256: make([]byte, 32), Size: 1}}},
	}
	if err := k.gather(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	lost := &pb.Partial{Key: &pb.Key{Version: schemas.Version, Model: k.d.Identity.Model, Owner: "attention-1", Step: 2, Rows: 2}, Parcel: late.Parcel}
	if err := k.gather(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if got := k.blocks.Take(t, 2); len(got) != 2 || got[1].Key.Step != 2 || got[1].Error.GetCode() != wire.Elsewhere {
		t.Errorf("%v", got[1:])
	}
	testkit.Eventually(t, "no object is left", func() bool { return k.objects() == 0 })
	if err := k.gather(t.Context(), &pb.Partial{Key: &pb.Key{}, Parcel: late.Parcel}); err == nil {
		t.Error("a foreign key was taken")
	}
}

// A replica that has no time left ends, also where it has removed nothing.
func TestGathersEnd(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		newGathers(nil).end(over)
	}
}
