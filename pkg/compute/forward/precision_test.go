package forward

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// Logits of quantised weights are as near to transformers' as docs/design/weights.md says,
// in parts of their spread, and a row's do not depend on the rows beside it.
func TestPrecision(t *testing.T) {
	const name = "mixtral"
	golden := goldenTensor(t, name, "logits")
	for p, tt := range map[model.Precision]struct{ near, share float64 }{
		model.AsStored: {1e-3, 1}, model.W16A16: {0.02, 1}, model.Q8: {0.02, 0.54}, model.Q4: {0.5, 0.29},
		model.W8A8: {0.04, 0.54}, model.W4A8: {0.5, 0.29},
	} {
		t.Run(string(p), func(t *testing.T) {
			m := modeltest.Golden(t, name)
			plain, _ := ExpertBytes(m, ExpertID{})
			m.In(p)
			if err := CheckPrecision(m); err != nil {
				t.Fatal(err)
			}
			all := logits(t, m, name)
			at := slices.DeleteFunc(goldenPositions(t, name, golden.Shape[1]), func(p int) bool { return p >= len(all)/golden.Shape[2] })
			got := goldens.Rows(all, golden.Shape[2], at)
			lost, sum := 0.0, 0.0
			for i, v := range got {
				want := math.Float32frombits(binary.LittleEndian.Uint32(golden.Data[4*i:]))
				lost, sum = lost+math.Pow(float64(v-want), 2), sum+math.Pow(float64(want), 2)
			}
			if d := math.Sqrt(lost / sum); !(d <= tt.near) {
				t.Errorf("logits differ by %.4f of their spread, more than %v", d, tt.near)
			}
			e, err := loadExpert(t.Context(), m, ExpertID{})
			foreseen, _ := ExpertBytes(m, ExpertID{})
			if err != nil || e.Bytes() != foreseen || float64(foreseen) > tt.share*float64(plain) {
				t.Errorf("%v: %d bytes, %d foreseen, %d as stored", err, e.Bytes(), foreseen, plain)
			}
			alone(t, e, p)
		})
	}
}

// alone compares rows that are computed together with each by itself.
func alone(t *testing.T, e *Expert, p model.Precision) {
	t.Helper()
	const rows = 7
	d := e.hidden()
	x, together, one := noise(1, rows*d), make([]float32, rows*d), make([]float32, d)
	e.runInline(together, x, rows, make([]float32, e.floatsFor(rows)))
	for r := range rows {
		e.runInline(one, x[r*d:(r+1)*d], 1, make([]float32, e.floatsFor(1)))
		if !same(one, together[r*d:(r+1)*d]) {
			t.Errorf("%s: row %d has other bits alone", p, r)
		}
	}
}

// Weights that are stored packed stay so, and a matrix that groups do not divide is refused by name.
func TestPrecisionRefusals(t *testing.T) {
	m := modeltest.Golden(t, "gpt_oss-mxfp4")
	plain, _ := ExpertBytes(m, ExpertID{})
	m.In(model.Q8)
	if n, err := ExpertBytes(m, ExpertID{}); err != nil || n != plain {
		t.Errorf("%d bytes, %d as stored; %v", n, plain, err)
	}
	m = modeltest.Golden(t, "qwen3_moe")
	m.In(model.Q4)
	want := "weights in q4: ExpertDown of layer 0, expert 0 of model qwen3_moe: 40 inputs are no multiple of 32, which share a scale"
	if err := CheckPrecision(m); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	dir, name := spoilt(t, goldens.Dir("mixtral"), ".experts.1.w3.weight", func(b []byte) { copy(b, "\xff\xff\xff\xff\xff\xff\xff\xff") })
	m = modeltest.Open(t, dir)
	m.In(model.Q8)
	if _, err := loadExpert(t.Context(), m, ExpertID{0, 1}); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "a weight is NaN") {
		t.Errorf("%v, want the name %s", err, name)
	}
}

// Each matrix that is quantised is told of once, the experts' of a layer as one.
func TestRoundings(t *testing.T) {
	m := modeltest.Golden(t, "mixtral")
	m.In(model.Q8)
	told := map[string]int{}
	err := Roundings(t.Context(), m, func(r Rounding) error {
		told[r.Role]++
		if !(r.Error > 0.001 && r.Error < 0.01) || r.Kept >= r.Stored {
			t.Errorf("%+v", r)
		}
		return nil
	})
	if err != nil || told["ExpertDown"] != m.Spec.Layers || told["Q"] != m.Spec.Layers || told["Router"]+told["Embed"] != 0 || told["Head"] != 1 {
		t.Errorf("%v, %v", told, err)
	}
}
