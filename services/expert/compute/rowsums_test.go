package compute

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rows of which all awaited slots are here come as sums, with the bits of what an
// aggregator makes of the slots. The tiny model has two slots a row.
func TestRowSums(t *testing.T) {
	for name, tc := range map[string]struct {
		awaits []byte
		places []uint32 // of the dispatch
		want   []uint32 // of the partial: in a group of 3 rows, 6, 7 and 8 are sums
	}{
		"all":                {nil, []uint32{0, 1, 2, 3, 4, 5}, []uint32{6, 7, 8}},
		"one row in part":    {nil, []uint32{0, 1, 3, 4, 5}, []uint32{6, 3, 8}},
		"first in part":      {nil, []uint32{1, 2, 3}, []uint32{1, 7}},
		"no row as a whole":  {nil, []uint32{0, 3, 5}, []uint32{0, 3, 5}},
		"one slot is all":    {[]byte{0b111101}, []uint32{0, 2, 3}, []uint32{0, 7}},
		"last row, no first": {[]byte{0b111100}, []uint32{4, 5}, []uint32{8}},
	} {
		for _, w := range []tensor.Wire{tensor.F32, tensor.BF16} {
			c, d := newComputer(t, w), &pb.Dispatch{}
			slots, width := computed(t, c, d, tc.places, tc.awaits, false)
			sums, _ := computed(t, c, d, tc.places, tc.awaits, true)
			if !slices.Equal(d.Place, tc.places) {
				t.Fatalf("%s: the dispatch's places are %v now", name, d.Place)
			}
			if !slices.Equal(sums.Place, tc.want) || !slices.Equal(sums.Awaits, tc.awaits) {
				t.Errorf("%s: places %v, want %v", name, sums.Place, tc.want)
			}
			for i, place := range sums.Place {
				want := rowOf(t, w, slots, width, func(p uint32) bool {
					if row, sum := c.shape.SummedRow(3, place); sum {
						return c.shape.Row(p) == row
					}
					return p == place
				})
				if got := sums.Tensor.Data[i*width*w.ElementBytes():][:width*w.ElementBytes()]; !slices.Equal(got, want) {
					t.Errorf("%s, wire %s: the row of place %d differs", name, w, place)
				}
			}
		}
	}
}

// summer is a device that adds up by itself, and counts.
type summer struct {
	device.Device
	sums, computes int
}

func (d *summer) Sums(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	d.sums++
	return forward.SumSlots(d.Device, in, out, s, tensor.BF16, nil)
}

func (d *summer) Compute(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	d.computes++
	return d.Device.Compute(in, out, s)
}

// A device that adds up by itself does so where all rows come as sums.
func TestRowSumsOfDevice(t *testing.T) {
	for _, tc := range []struct {
		name   string
		places []uint32
		asked  bool // for sums
		sums   int
	}{
		{"all", []uint32{0, 1, 4, 5}, true, 1}, {"some", []uint32{0, 1, 4}, true, 0}, {"unasked", []uint32{0, 1, 4, 5}, false, 0},
	} {
		c := newComputer(t, tensor.BF16)
		want, _ := computed(t, c, &pb.Dispatch{}, tc.places, nil, tc.asked)
		on := &summer{Device: c.device}
		c.device = on
		got, _ := computed(t, c, &pb.Dispatch{}, tc.places, nil, tc.asked)
		if on.sums != tc.sums || on.computes != 1-tc.sums {
			t.Errorf("%s: asked for sums %d times, and for slots %d times", tc.name, on.sums, on.computes)
		}
		if !slices.Equal(got.Place, want.Place) || !slices.Equal(got.Tensor.Data, want.Tensor.Data) {
			t.Errorf("%s: other rows than a device's that adds nothing up", tc.name)
		}
	}
}

// computed is a copy of what a dispatch of these places gives.
func computed(t *testing.T, c *Computer, d *pb.Dispatch, places []uint32, awaits []byte, sums bool) (*pb.Partial, int) {
	t.Helper()
	x := make([]float32, 3*c.shape.Hidden)
	for i := range x {
		x[i] = float32(i%17)/3 - 2
	}
	rows := 0
	d.Place, d.Expert, d.Weight, d.Awaits = places, nil, nil, awaits
	for i, place := range places {
		if i == 0 || c.shape.Row(place) != c.shape.Row(places[i-1]) {
			rows++
		}
		d.Expert, d.Weight = append(d.Expert, place%3), append(d.Weight, 0.3+float32(place)/7)
	}
	d.Key = &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Rows: 3, Aggregator: "a", RowSums: sums}
	d.Tensor = tensor.Encode(c.wire, x[:rows*c.shape.Hidden], c.shape.Hidden, nil)
	p, err := c.Compute(d, &pb.FunctionTime{})
	if err != nil {
		t.Fatal(err)
	}
	p.Place, p.Tensor.Data = slices.Clone(p.Place), slices.Clone(p.Tensor.Data)
	return p, c.shape.Hidden
}

// rowOf adds up the rows of some of a partial's slots, as the wire has them.
func rowOf(t *testing.T, w tensor.Wire, p *pb.Partial, width int, of func(place uint32) bool) []byte {
	t.Helper()
	all := make([]float32, len(p.Place)*width)
	if err := tensor.Decode(all, p.Tensor, width); err != nil {
		t.Fatal(err)
	}
	var some []float32
	for i, place := range p.Place {
		if of(place) {
			some = append(some, all[i*width:(i+1)*width]...)
		}
	}
	sum := make([]float32, width)
	forward.Combine(sum, some, nil, len(some)/width, width)
	return tensor.Encode(w, sum, width, nil).Data
}
