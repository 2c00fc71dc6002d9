package forward

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// tens gives entry i ten times its weight in all columns, or fails.
type tens struct{ err error }

func (e tens) Compute(in Routed, out []float32, _ *ExpertScratch) error {
	for i := range out {
		out[i] = 10 * in.Weight[i/(len(out)/len(in.Weight))]
	}
	return e.err
}

// summing adds up by itself, and makes every sum 1.
type summing struct{ tens }

func (e summing) Sums(_ Routed, out []float32, _ *ExpertScratch) error {
	for i := range out {
		out[i] = 1
	}
	return e.err
}

// Rows may have any number of entries, and each entry is rounded before it is added. Experts that
// add up by themselves are asked for that, and nothing else.
func TestSumExperts(t *testing.T) {
	const width = 1 << 16 // so that threads share the rows
	broken := errors.New("broken")
	in := Routed{Source: []uint32{0, 0, 1, 2, 2, 2}, Expert: make([]uint32, 6), Weight: []float32{1, 2, 3, 4, 5, 25.7}}
	for _, tt := range []struct {
		name    string
		experts Experts
		wire    tensor.Wire
		pool    *pool.Pool
		want    []float32
		err     error
	}{
		{"f32", tens{}, tensor.F32, nil, []float32{30, 30, 347}, nil},
		{"bf16", tens{}, tensor.BF16, nil, []float32{30, 30, 346}, nil}, // 257 is 256
		{"by threads", tens{}, tensor.BF16, threads(t), []float32{30, 30, 346}, nil},
		{"by itself", summing{}, tensor.F32, nil, []float32{1, 1, 1}, nil},
		{"broken", tens{broken}, tensor.F32, nil, []float32{0, 0, 0}, broken},
		{"broken by itself", summing{tens{broken}}, tensor.F32, nil, []float32{1, 1, 1}, broken},
		{"of nothing", tens{}, tensor.BF16, nil, nil, nil},
	} {
		out := make([]float32, len(tt.want)*width)
		if tt.want == nil {
			in = Routed{}
		}
		if err := SumExperts(tt.experts, in, out, &ExpertScratch{}, tt.wire, tt.pool); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		for i, v := range out {
			if v != tt.want[i/width] {
				t.Errorf("%s: column %d of row %d is %v, want %v", tt.name, i%width, i/width, v, tt.want)
				break
			}
		}
	}
}
