package bench

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What serialising is measured with has as many rows as a pipeline's messages: the host of all
// experts sends one for a token, whatever top-k is.
func TestLayerMessages(t *testing.T) {
	const batch, topK, width = 3, 8, 4
	all := layerMessages(batch, topK, tensor.Encode(tensor.BF16, make([]float32, batch*width), width, nil))
	if len(all) != 4 {
		t.Errorf("%d messages", len(all))
	}
	for _, m := range all {
		of, ok := m.(interface{ GetTensor() *pb.Tensor })
		if !ok || of.GetTensor().GetRows() != batch {
			t.Errorf("%T is %v, want %d rows", m, m, batch)
		}
		if p, ok := m.(*pb.Partial); ok && len(p.Place) != batch {
			t.Errorf("a partial of %d places", len(p.Place))
		}
		if d, ok := m.(*pb.Dispatch); ok && (len(d.Expert) != batch*topK || len(d.Place) != batch*topK || len(d.Weight) != batch*topK) {
			t.Errorf("a dispatch to %d experts", len(d.Expert))
		}
	}
}
