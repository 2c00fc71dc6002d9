package compute

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// newComputer has experts 0 to 2 of layer 0 of the synthetic model.
func newComputer(t testing.TB, w tensor.Wire) *Computer {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	t.Cleanup(p.Close)
	cpu := device.NewCPU(m, p, device.Settings{})
	t.Cleanup(cpu.Close)
	for e := range 3 {
		if err := cpu.Load(t.Context(), forward.ExpertID{Expert: e}, 0).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return &Computer{device: cpu, wire: w, shape: &wire.Shape{
		Identity: wire.Identity{Model: 7}, Hidden: m.Spec.Hidden, Experts: m.Spec.Experts, TopK: m.Spec.TopK, MoE: []bool{true, true},
		MaxRows: func() int { return 4096 },
	}}
}

// A partial has the dispatch's places and, whatever the order and company of
// the rows, the same bytes for the same routed row.
func TestCompute(t *testing.T) {
	for _, w := range []tensor.Wire{tensor.F32, tensor.BF16} {
		c := newComputer(t, w)
		d := rig.Dispatch(w, c.shape.Hidden, 0, 1, 2, 1, 1, 0)
		d.Key.Rows, d.Awaits = 4, []byte{0b00111111}
		all, err := c.Compute(d, &pb.FunctionTime{})
		if err != nil {
			t.Fatal(err)
		}
		if all.Key != d.Key || !slices.Equal(all.Place, d.Place) || !slices.Equal(all.Awaits, d.Awaits) {
			t.Errorf("%v", all)
		}
		stride := c.shape.Hidden * w.ElementBytes()
		want := slices.Clone(all.Tensor.Data) // valid until the next call
		for i := range d.Expert {
			row, bytes := i/2, len(d.Tensor.Data)/3
			one := &pb.Dispatch{
				Key: d.Key, Place: d.Place[i : i+1], Expert: d.Expert[i : i+1], Weight: d.Weight[i : i+1], Awaits: d.Awaits,
				Tensor: &pb.Tensor{Dtype: d.Tensor.Dtype, Rows: 1, Cols: d.Tensor.Cols, Data: d.Tensor.Data[row*bytes:][:bytes]},
			}
			p, err := c.Compute(one, &pb.FunctionTime{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.Tensor.Data, want[i*stride:(i+1)*stride]) {
				t.Errorf("wire %s: routed row %d differs alone", w, i)
			}
		}
	}
}

func TestComputeErrors(t *testing.T) {
	for _, tc := range []struct {
		name      string
		change    func(*pb.Dispatch)
		permanent bool
	}{
		{"no key", func(d *pb.Dispatch) { d.Key = nil }, true},
		{"another model", func(d *pb.Dispatch) { d.Key.Model = 8 }, true},
		{"no tensor", func(d *pb.Dispatch) { d.Tensor = nil }, true},
		{"other width", func(d *pb.Dispatch) { d.Tensor.Cols, d.Tensor.Rows = 32, 4 }, true},
		{"no rows", func(d *pb.Dispatch) { d.Expert, d.Place, d.Weight = nil, nil, nil }, true},
		{"fewer weights", func(d *pb.Dispatch) { d.Weight = d.Weight[:1] }, true},
		{"fewer places", func(d *pb.Dispatch) { d.Place = d.Place[:1] }, true},
		{"more rows than the tensor", func(d *pb.Dispatch) { d.Place[1] = 2 }, true},
		{"fewer rows than the tensor", func(d *pb.Dispatch) { d.Tensor.Rows = 2; d.Tensor.Data = make([]byte, 2*len(d.Tensor.Data)) }, true},
		{"a place twice", func(d *pb.Dispatch) { d.Place[1] = 0 }, true},
		{"places descend", func(d *pb.Dispatch) { d.Place[0], d.Place[1] = 1, 0 }, true},
		{"an expert that the model lacks", func(d *pb.Dispatch) { d.Expert[0] = 4 }, true},
		{"a layer that the model lacks", func(d *pb.Dispatch) { d.Key.Layer = 2 }, true},
		{"a place that is not awaited", func(d *pb.Dispatch) { d.Awaits = []byte{0b10} }, true},
		{"awaits beyond the group", func(d *pb.Dispatch) { d.Awaits = []byte{0b101} }, true},
		{"a place outside the group", func(d *pb.Dispatch) { d.Place[1] = 1 << 31 }, true},
		{"more rows than the group", func(d *pb.Dispatch) { d.Key.Rows, d.Place[0] = 1, 2 }, true},
		{"an expert that is not here", func(d *pb.Dispatch) { d.Expert[0] = 3 }, false},
		{"another layer", func(d *pb.Dispatch) { d.Key.Layer = 1 }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newComputer(t, tensor.F32)
			d := rig.Dispatch(tensor.F32, c.shape.Hidden, 0, 1)
			tc.change(d)
			_, err := c.Compute(d, &pb.FunctionTime{})
			if err == nil || Permanent(err) != tc.permanent {
				t.Errorf("%v, want permanent %v", err, tc.permanent)
			}
			if !tc.permanent && !errors.Is(err, forward.ErrNotWarm) {
				t.Errorf("%v, want ErrNotWarm", err)
			}
		})
	}
}

// Bytes from outside are a partial that an aggregator takes, of as many slots as were asked, or an
// error.
func FuzzCompute(f *testing.F) {
	c := newComputer(f, tensor.F32)
	for _, experts := range [][]uint32{{0}, {0, 1, 2}, {3}, nil} {
		for _, sums := range []bool{false, true} {
			d := rig.Dispatch(tensor.F32, c.shape.Hidden, experts...)
			d.Key.RowSums = sums
			body, err := proto.Marshal(d)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d := &pb.Dispatch{}
		if proto.Unmarshal(body, d) != nil {
			return
		}
		p, err := c.Compute(d, &pb.FunctionTime{})
		switch {
		case err != nil && !Permanent(err) && !errors.Is(err, forward.ErrNotWarm):
			t.Errorf("%v has no class", err)
		case err != nil:
		case slotsOf(c.shape, p) != len(d.Expert):
			t.Errorf("places %v for %v", p.Place, d.Place)
		default:
			if _, err := c.shape.CheckPartial(p); err != nil {
				t.Error(err)
			}
		}
	})
}

// slotsOf is how many slots a partial stands for.
func slotsOf(s *wire.Shape, p *pb.Partial) (n int) {
	for _, place := range p.Place {
		if row, sum := s.SummedRow(int(p.Key.Rows), place); sum {
			n += wire.Awaits(p.Awaits).CountOf(row, s.TopK)
		} else {
			n++
		}
	}
	return n
}
