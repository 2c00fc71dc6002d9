package serving

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stored is a dispatch whose rows a gate has put into objects, a row each.
func (h *host) stored(d *pb.Dispatch) *pb.Dispatch {
	h.t.Helper()
	if err := h.d.EnsureObjects(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	sent := testdeployment.Listen[*pb.Dispatch](h.t, h.d, bus.Receiver{Stream: h.d.Streams.Expert(0), Name: "stored", Subject: h.d.Subjects.Expert(0, "stored")})
	to := transfer.Address{Subject: h.d.Subjects.Expert(0, "stored"), Function: h.f.ID()}
	if err := h.d.Rows(nil).By(plan.Pipelined, 1).Scatter(h.t.Context(), to, d); err != nil {
		h.t.Fatal(err)
	}
	return sent.Take(h.t, 1)[0]
}

// outputs are the rows that partials have, by place.
func (h *host) outputs(all []*pb.Partial) map[uint32]string {
	h.t.Helper()
	out := map[uint32]string{}
	for _, p := range all {
		p, err := h.d.Rows(nil).Of(p.Parcel).Gather(h.t.Context(), proto.CloneOf(p))
		if err != nil {
			h.t.Fatal(err)
		}
		row := len(p.Tensor.Data) / len(p.Place)
		for i, place := range p.Place {
			out[place] = string(p.Tensor.Data[i*row : (i+1)*row])
		}
	}
	return out
}

// A host that goes on where another one died computes the minibatches that are missing, and no others; the
// outputs have the bits of rows in one message.
func TestServeAfterAKilledHost(t *testing.T) {
	h := newHost(t, 0)
	if err := h.takes(h.rows(1)); err != nil {
		t.Fatal(err)
	}
	want := h.outputs(h.partials.Take(t, 1))
	h.counter.Take(time.Second, false)

	d := h.stored(h.rows(2))
	dead := proto.CloneOf(d)
	dead.Expert[2] = 3 // cold: the second minibatch fails
	if err := h.takes(dead); err == nil {
		t.Fatal("computed with a cold expert")
	}
	h.partials.Take(t, 2)
	body, err := proto.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Receive(t.Context(), &bus.Msg{Data: body, Delivered: 2}, h.f); err != nil {
		t.Fatal(err)
	}
	all := h.partials.Take(t, 4)
	if got := h.outputs(all[2:]); len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%d outputs are not those of messages", len(got))
	}
	if l := h.counter.Take(time.Second, false); len(l) != 1 || !slices.Equal(l[0].Expert, []uint32{0, 1}) || !slices.Equal(l[0].Rows, []uint64{1, 2}) {
		t.Errorf("computed %v, want each row once", l)
	}
	if p := all[3]; p.Function == nil || all[2].Function != nil {
		t.Errorf("times are told by %v and %v, want the last alone", all[2].Function, p.Function)
	}
}

// Rows that are gone are given back to their owner.
func TestServeLostRows(t *testing.T) {
	h := newHost(t, 0)
	d := h.stored(h.rows(1))
	if err := h.d.Rows(nil).Forget(t.Context(), transfer.Group(d.Key)); err != nil {
		t.Fatal(err)
	}
	if err := h.takes(d); err != nil {
		t.Fatal(err)
	}
	if b := h.blocks.Take(t, 1)[0]; b.Error.GetCode() != wire.Elsewhere {
		t.Errorf("told %v", b)
	}
}
