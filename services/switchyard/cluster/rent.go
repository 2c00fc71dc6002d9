package cluster

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// RentedElement is the bytes of an element where experts are rented: rows travel as bf16.
const RentedElement = 2

// RentedModel is what the parts of a model weigh on a serverless platform.
func RentedModel(m *model.Model) (serverless.Model, error) {
	spec := m.Spec
	largest, err := device.Largest(spec, func(id forward.ExpertID) (int64, error) { return forward.ExpertBytes(m, id) })
	if err != nil {
		return serverless.Model{}, fmt.Errorf("sizing the experts: %w", err)
	}
	of := serverless.Model{
		Layers: spec.MoELayers(), Experts: spec.Experts, TopK: spec.TopK, Expert: float64(largest), Token: RentedElement * float64(spec.Hidden),
		Cache: float64(kvcache.ShapeOf(&spec).PageBytes() / kvcache.PagePositions),
	}
	of.Fixed = max(0, float64(m.Bytes)-of.All())
	return of, nil
}
