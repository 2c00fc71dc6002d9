package predictor

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whole numbers of rows are predicted: as many as there are, each expert's less
// than one off.
func TestRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 50).Draw(t, "load")
		sum, told := 0.0, 0.0
		for _, v := range load {
			sum += v
		}
		experts, counts := rounded(load)
		if !slices.IsSorted(experts) || len(experts) != len(counts) {
			t.Fatalf("experts %v, counts %v", experts, counts)
		}
		for i, e := range experts {
			told += float64(counts[i])
			if off := float64(counts[i]) - load[e]; counts[i] == 0 || off <= -1-1e-9 || off >= 1+1e-9 {
				t.Fatalf("expert %d gets %d, not %v", e, counts[i], load[e])
			}
		}
		if off := told - sum; off < -0.5-1e-9 || off > 0.5+1e-9 {
			t.Fatalf("%v rows were told of %v", told, sum)
		}
	})
}

func TestRoundedWhole(t *testing.T) {
	experts, counts := rounded([]float64{0, 3, 0, 1})
	if !slices.Equal(experts, []uint32{1, 3}) || !slices.Equal(counts, []uint32{3, 1}) {
		t.Errorf("%v, %v", experts, counts)
	}
}

// FuzzHandle feeds bytes that anybody may publish: whatever they are, what is
// predicted fits the model.
func FuzzHandle(f *testing.F) {
	d := testdeployment.Open(f)
	p, err := predictors.For(d.Model, "", 1)
	if err != nil {
		f.Fatal(err)
	}
	to := &testdeployment.LoadSink{}
	d.Loads = to
	w := newWorker(d, "predictor-1", p, d.NewLoadOutbox("predictor-1", pb.LoadSource_LOAD_SOURCE_PREDICTOR))
	body, err := proto.Marshal(rows(d, 0, 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add(body[:len(body)/2])
	f.Fuzz(func(t *testing.T, body []byte) {
		to.Take()
		if w.handle(t.Context(), body) != nil {
			return
		}
		w.out.Flush()
		for _, s := range to.Take() {
			for _, step := range s.Steps {
				sum := uint32(0)
				for i, n := range step.Count {
					sum += n
					if int(step.Expert[i]) >= d.Shape.Experts {
						t.Errorf("expert %d", step.Expert[i])
					}
				}
				if int(s.Layer) >= len(d.Shape.MoE) || int(sum) != int(step.Rows)*d.Shape.TopK || step.PrefillRows > step.Rows {
					t.Errorf("predicted %v", s)
				}
			}
		}
	})
}
