package cuda

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// Scales of two tensors lie beside each other, all rows' for the same columns together.
func TestPutScales(t *testing.T) {
	const n = 3
	gate := model.Packed{Tensor: model.Tensor{Shape: []int{2, 200}}, Factors: []float32{1, 2, 3, 4}}
	up := model.Packed{Tensor: model.Tensor{Shape: []int{1, 200}}, Factors: []float32{5, 6}}
	to := make([]byte, fp8.scaleBytes(n, 200))
	putScales(to, gate, 0, n)
	putScales(to, up, 2, n)
	if want := floatBytes([]float32{1, 3, 5, 2, 4, 6}); !slices.Equal(to, want) {
		t.Errorf("factors %x, want %x", to, want)
	}
	gate = model.Packed{Tensor: model.Tensor{Shape: []int{2, 96}}, Exponents: []byte{1, 2, 3, 4, 5, 6}}
	up = model.Packed{Tensor: model.Tensor{Shape: []int{1, 96}}, Exponents: []byte{7, 8, 9}}
	to = make([]byte, mxfp4.scaleBytes(n, 96))
	putScales(to, gate, 0, n)
	putScales(to, up, 2, n)
	if want := []byte{1, 4, 7, 2, 5, 8, 3, 6, 9, 0, 0, 0}; !slices.Equal(to, want) { // columns up to 128
		t.Errorf("powers of two %d, want %d", to, want)
	}
}

// Quantised experts take as much less of the GPU as they have fewer bits.
func TestQuantisedPlaces(t *testing.T) {
	packed, _ := modeltest.FP8(t, goldens.Dir("mixtral"))
	for _, tt := range []struct {
		plain, packed *model.Model
		most          float64 // of what bf16 takes
	}{
		{modeltest.Golden(t, "gpt_oss"), modeltest.Golden(t, "gpt_oss-mxfp4"), 0.3},
		{modeltest.Golden(t, "mixtral"), modeltest.Open(t, packed), 0.55},
	} {
		a, err := shapeOf(tt.plain, 1, cuda.Mma)
		if err != nil {
			t.Fatal(err)
		}
		b, err := shapeOf(tt.packed, 1, cuda.Mma)
		if err != nil || float64(b.slot) > tt.most*float64(a.slot) {
			t.Errorf("%d bytes, %d in bf16, %v", b.slot, a.slot, err)
		}
	}
}
