package forward

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Codes that rows in 8 bits meet take no more memory than those that rows in float32 meet. Experts' outputs are near theirs, and so are
// logits, as far as random weights allow, whose experts are chosen by little; bits are the same in each variant of the kernels and each batch.
func TestRowsIn8Bits(t *testing.T) {
	load := map[string]func(t *testing.T) *model.Model{
		"Q4_K_M": func(t *testing.T) *model.Model { return inGGUF(t, smallTensors(mixedTypes)) },
		"gptq": func(t *testing.T) *model.Model {
			m, _ := inInt4(t, int4Tensors(false, false), `"quant_method": "gptq", "desc_act": false`)
			return m
		},
		"awq": func(t *testing.T) *model.Model {
			m, _ := inInt4(t, int4Tensors(true, false), `"quant_method": "awq", "version": "gemm"`)
			return m
		},
	}
	for _, kind := range safetensors.Blocks() {
		load[string(kind)] = func(t *testing.T) *model.Model {
			return inGGUF(t, smallTensors(func(string) safetensors.DType { return kind }))
		}
	}
	for name, open := range load {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			exact := logits(t, m, "mixtral")
			outputs, bytes := expertOf(t, m)
			m.In(model.A8)
			if err := CheckPrecision(m); err != nil {
				t.Fatal(err)
			}
			got := logits(t, m, "mixtral")
			if d := distance(got, exact); !(d <= 0.4) {
				t.Errorf("logits differ by %.5f of their spread", d)
			}
			near, n := expertOf(t, m)
			if d := distance(near, outputs); n > bytes || !(d > 1e-4 && d <= 0.015) {
				t.Errorf("an expert's outputs differ by %.5f of their spread; it takes %d bytes, %d without rows in 8 bits", d, n, bytes)
			}
			for _, variant := range cpu.Available() {
				restore, _ := cpu.Use(variant)
				if !same(got, logits(t, m, "mixtral")) {
					t.Errorf("other bits in %s", variant)
				}
				restore()
			}
		})
	}
}

// expertOf computes rows with an expert, whose bytes must be what is foreseen, and whose rows must not depend on each other.
func expertOf(t *testing.T, m *model.Model) (outputs []float32, bytes int64) {
	t.Helper()
	e, err := loadExpert(t.Context(), m, ExpertID{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	bytes, err = ExpertBytes(m, ExpertID{1, 2})
	if err != nil || bytes != e.Bytes() {
		t.Errorf("%d bytes, %d foreseen; %v", e.Bytes(), bytes, err)
	}
	alone(t, e, m.Precision)
	run := func(e *Expert) []float32 {
		const rows = 16
		outputs := make([]float32, rows*e.hidden())
		e.runInline(outputs, noise(3, len(outputs)), rows, make([]float32, e.floatsFor(rows)))
		return outputs
	}
	outputs = run(e)
	if other, err := LoadExpertBy(t.Context(), cpu.Packer{Run: sideBySide}, m, ExpertID{1, 2}); err != nil || !same(run(other), outputs) {
		t.Errorf("with panels filled side by side it has other bits; %v", err)
	}
	return outputs, bytes
}

// sideBySide runs pieces at once.
func sideBySide(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// distance is the root of squared differences over that of squares.
func distance(got, want []float32) float64 {
	lost, all := 0.0, 0.0
	for i, v := range got {
		lost, all = lost+math.Pow(float64(v-want[i]), 2), all+math.Pow(float64(want[i]), 2)
	}
	return math.Sqrt(lost / all)
}

// A model without codes has nothing for rows in 8 bits.
func TestRowsIn8BitsRefused(t *testing.T) {
	m := modeltest.Golden(t, "mixtral")
	m.In(model.A8)
	if err := CheckPrecision(m); err == nil || !strings.Contains(err.Error(), "no matrix of model mixtral is stored as codes") {
		t.Errorf("%v", err)
	}
	shuffled, _ := inInt4(t, int4Tensors(false, true), `"quant_method": "gptq", "desc_act": true`)
	shuffled.In(model.A8)
	if err := CheckPrecision(shuffled); err == nil {
		t.Error("inputs in any order of groups are accepted")
	}
}
