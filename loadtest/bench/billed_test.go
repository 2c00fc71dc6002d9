package bench

import (
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/schemas"
)

// Every row of a batch is billed once in each mode, and for no less than functions take to start.
func TestBills(t *testing.T) {
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // it was only read
	threads := pool.New(1)
	defer threads.Close()
	s := &scatter.System{
		Model: scatter.Model{Layers: 1, Experts: 2, TopK: 1, Expert: 1e4, In: 1024, Out: 1024},
		Functions: cost.Platform{
			Sizes: []float64{1 << 20}, PerCPU: 1 << 20, CPU: cost.Roofline{Bandwidth: 1e12, Rate: 1e10, ElementBytes: 4},
			Parameters: cost.Link{Latency: 1e-3, Bandwidth: 1e9}, Fixed: 1e-3, Payload: 1e6, Direct: 1e9, Replicas: 2, Prices: cost.Prices{Memory: 1},
		},
	}
	var all []Deployment
	for _, mode := range scatter.Modes {
		all = append(all, Deployment{mode.String(), &scatter.Plan{Layers: []scatter.Layer{{Mode: mode, Beta: 3, Experts: []scatter.Function{{Memory: 1 << 20, Replicas: 2}, {Memory: 1 << 20, Replicas: 1}}}}}})
	}
	settings := Billing{
		TransferSettings: TransferSettings{Model: m, Pool: threads, Wire: tensor.F32, Hops: schemas.HopsUnacked, Progress: func(string, ...any) {}},
		System:           s, Loads: [][]float64{{8, 5}}, Tokens: 13, AtOnce: 2, Seed: 1,
	}
	bills, err := MeasureBills(t.Context(), settings, all)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range bills {
		least := 0.0 // what starting takes, as drawn
		for _, c := range settings.invocations(all[i].Plan) {
			least += meter.Invocation(c.starts, c.memory, 1)
		}
		if b.Rows != 13 || b.Calls != 3 || b.Mode != scatter.Modes[i].String() || b.Model <= 0 || b.Live < least || least <= 0 {
			t.Errorf("%+v, where starting alone takes %v", b, least)
		}
	}
}
