package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Sizes of the suite's dispatches.
const (
	hidden, topK, experts = 4, 2, 8
	rows                  = 10
	rowBytes              = 2 * hidden
	aggregator            = "partials"
	// patience is of hosts whose rows are all stored, or never are.
	patience = 20 * time.Millisecond
)

// Rig is a gate, a host and an aggregator around a link.
type Rig struct {
	*transfer.Link
	T       testing.TB
	Objects *Faulty
	// Payload is the most bytes of a message, once it is not 0.
	Payload int

	mu   sync.Mutex
	sent map[string][]proto.Message // by subject
	fell map[string]int             // fallbacks
}

// NewRig returns one over a store.
func NewRig(t testing.TB, over transfer.Objects) *Rig {
	t.Helper()
	r := &Rig{T: t, Objects: &Faulty{Objects: over}, sent: map[string][]proto.Message{}, fell: map[string]int{}}
	r.Link = transfer.New(transfer.Settings{
		Sender: r, Objects: r.Objects, Shape: shape(), RowBytes: rowBytes, Payload: func() int { return r.payload() }, Observer: r, Patience: patience,
	})
	return r
}

func shape() *wire.Shape {
	return &wire.Shape{
		Identity: wire.Identity{Model: 7}, Hidden: hidden, Experts: experts, TopK: topK, MoE: []bool{true, true}, MaxRows: func() int { return 1000 },
	}
}

func (r *Rig) payload() int {
	if r.Payload > 0 {
		return r.Payload
	}
	return 1 << 20
}

// Send implements transfer.Sender.
func (r *Rig) Send(_ context.Context, subject string, msg proto.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if size := proto.Size(msg); size > r.payload() {
		return &bus.TooLargeError{Subject: subject, Size: int64(size), Limit: int64(r.payload())}
	}
	r.sent[subject] = append(r.sent[subject], proto.Clone(msg))
	return nil
}

// Moved implements transfer.Observer.
func (r *Rig) Moved(pb.TransferMode, string, int, time.Duration) {}

// FellBack implements transfer.Observer.
func (r *Rig) FellBack(from, to pb.TransferMode, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fell[fmt.Sprint(int(from), " to ", int(to), ": ", reason)]++
}

// Fell are the fallbacks so far.
func (r *Rig) Fell() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.fell)
}

// take takes what was sent to a subject.
func (r *Rig) take(subject string) []proto.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.sent[subject]
	delete(r.sent, subject)
	return all
}

// Dispatch is rows of a step for a function, each for one or two experts.
func Dispatch(step uint64) *pb.Dispatch { return DispatchOf(step, rows) }

// DispatchOf is one of so many rows.
func DispatchOf(step uint64, rows int) *pb.Dispatch {
	d := &pb.Dispatch{
		Key:  &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Epoch: 3, Step: step, Layer: 1, Rows: uint32(rows), Aggregator: "a", RowSums: true},
		Kind: plan.Routed, Gate: &pb.GateTime{QueueNs: 1},
	}
	x := make([]float32, rows*hidden)
	for i := range x {
		x[i] = float32(int(step)*100 + i)
	}
	d.Tensor = tensor.Encode(tensor.BF16, x, hidden, nil)
	for row := range rows {
		for slot := range 1 + row%topK {
			d.Place, d.Expert, d.Weight = append(d.Place, uint32(row*topK+slot)), append(d.Expert, uint32((row+slot)%experts)), append(d.Weight, float32(row))
		}
	}
	return d
}

// Way is a mode, and the rows of its minibatches.
type Way struct {
	Mode      pb.TransferMode
	Minibatch int
}

// Ways are all modes.
var Ways = []Way{{plan.Direct, 0}, {plan.Indirect, 0}, {plan.Pipelined, 1}, {plan.Pipelined, 3}, {plan.Pipelined, 64}}

// String is for names of tests.
func (w Way) String() string { return fmt.Sprintf("mode=%d,minibatch=%d", w.Mode, w.Minibatch) }

// pieces is how many objects rows go into each way.
func (w Way) pieces() int {
	switch w.Mode {
	case plan.Direct:
		return 0
	case plan.Indirect:
		return 1
	}
	return (rows + w.Minibatch - 1) / w.Minibatch
}

// Scatter sends a dispatch as a gate does.
func (r *Rig) Scatter(w Way, d *pb.Dispatch) error {
	return r.By(w.Mode, w.Minibatch).Scatter(r.T.Context(), transfer.Address{Subject: "f", Function: "0f"}, d)
}

// Host computes what has come for the function. It fails, as one that is killed, before so many
// minibatches; less than 0: it does not. computed is how many it has computed.
func (r *Rig) Host(all []*pb.Dispatch, again bool, dies int) (computed int, err error) {
	var mu sync.Mutex
	for _, d := range all {
		err := r.Of(d.Parcel).Serve(r.T.Context(), aggregator, d, again, func(_ context.Context, d *pb.Dispatch, _ time.Duration, then func(*pb.Partial) error) error {
			mu.Lock()
			defer mu.Unlock()
			if computed == dies {
				return errKilled
			}
			if _, err := shape().CheckDispatch(d); err != nil {
				return err
			}
			computed++
			return then(compute(d))
		})
		if err != nil {
			return computed, err
		}
	}
	return computed, nil
}

var errKilled = fmt.Errorf("the host was killed")

// Dispatches are what has come for the function.
func (r *Rig) Dispatches() (all []*pb.Dispatch) {
	for _, m := range r.take("f") {
		d, _ := m.(*pb.Dispatch)
		all = append(all, d)
	}
	return all
}

// compute makes of a row and an expert another row.
func compute(d *pb.Dispatch) *pb.Partial {
	p := &pb.Partial{
		Key: d.Key, Place: d.Place, Awaits: d.Awaits, Gate: d.Gate, Function: &pb.FunctionTime{Rows: uint32(len(d.Expert)), ComputeNs: 10},
		Tensor: &pb.Tensor{Dtype: d.Tensor.Dtype, Cols: hidden, Rows: uint32(len(d.Place))},
	}
	at := 0
	for i, place := range d.Place {
		if i > 0 && place/topK != d.Place[i-1]/topK {
			at++
		}
		row := bytes.Clone(d.Tensor.Data[at*rowBytes : (at+1)*rowBytes])
		row[0] += byte(d.Expert[i])
		p.Tensor.Data, p.ByteSeconds = append(p.Tensor.Data, row...), append(p.ByteSeconds, float32(i))
	}
	return p
}

// Answer is what an aggregator has of a group.
type Answer struct {
	Rows        map[uint32]string // by place
	Told, Times int               // gates' and functions' times
	Computed    uint32            // rows by those
	Key         *pb.Key
}

// Gather takes what was sent to the aggregator.
func (r *Rig) Gather() (a Answer, err error) {
	a.Rows = map[uint32]string{}
	for _, m := range r.take(aggregator) {
		p, _ := m.(*pb.Partial)
		if p, err = r.Of(p.Parcel).Gather(r.T.Context(), p); err != nil {
			return a, err
		}
		if _, err := shape().CheckPartial(p); err != nil {
			return a, err
		}
		for i, place := range p.Place {
			a.Rows[place] = string(p.Tensor.Data[i*rowBytes : (i+1)*rowBytes])
		}
		if a.Key = p.Key; p.Gate != nil {
			a.Told++
		}
		if p.Function != nil {
			a.Times++
			a.Computed += p.Function.Rows
		}
	}
	return a, nil
}
