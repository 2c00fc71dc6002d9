package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/parallel"
	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/compute"
)

// Billing says what is billed: a batch's rows of each layer's experts, which reach functions of a
// platform as deployments say.
type Billing struct {
	TransferSettings
	System *scatter.System
	Loads  [][]float64
	Tokens int
	// AtOnce is how many functions run beside each other.
	AtOnce int
	Seed   uint64
}

// Deployment is a plan with its name.
type Deployment struct {
	Name string
	Plan *scatter.Plan
}

// Bill is what a deployment was billed live, beside what the formulas say: of each invocation from
// its message to the end of its last upload.
type Bill struct {
	Deployment string `json:"deployment"`
	Mode       string `json:"mode"` // or "several"
	Tokens     int    `json:"tokens"`
	Calls      int    `json:"invocations"`
	Rows       int    `json:"rows"`
	// Live, Model and Error are gigabyte-seconds, and how far the model is from the live bill.
	Live  float64 `json:"live_gb_seconds"`
	Model float64 `json:"model_gb_seconds"`
	Error float64 `json:"model_error"`
	// Worst is the largest error of a layer, and Wall what the batch took here, with few functions at once.
	Worst float64 `json:"worst_layer_error"`
	Wall  float64 `json:"wall_seconds"`
}

// String is a bill for people.
func (b *Bill) String() string {
	return fmt.Sprintf("%-20s %-9s %d tokens, %d invocations, %d rows: live %.3f GB·s, model %.3f (%+.1f %%; worst layer %+.1f %%); %.1f s\n",
		b.Deployment, b.Mode, b.Tokens, b.Calls, b.Rows, b.Live, b.Model, 100*b.Error, 100*b.Worst, b.Wall)
}

// invocation is a function's with its rows.
type invocation struct {
	layer  int
	memory float64
	rows   int
	way    way
	starts float64 // seconds until it computes
}

// MeasureBills moves a batch's rows through NATS under each deployment. Rows are computed by one
// expert of the model, who stands for all of them, and what functions, their store and their messages
// take beside is the platform's.
func MeasureBills(ctx context.Context, s Billing, all []Deployment) (bills []Bill, err error) {
	y, err := openYard(ctx, s.TransferSettings)
	if err != nil {
		return nil, err
	}
	defer y.close()
	for _, d := range all {
		s.Progress("billing %s…", d.Name)
		b, err := y.bill(ctx, s, d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		bills = append(bills, b)
	}
	return bills, nil
}

// bill moves a batch once.
func (y *yard) bill(ctx context.Context, s Billing, d Deployment) (Bill, error) {
	calls := s.invocations(d.Plan)
	b := Bill{Deployment: d.Name, Mode: modeName(d.Plan), Tokens: s.Tokens, Calls: len(calls)}
	y.platform = compute.NewRentedHost(s.System, s.Seed)
	defer y.platform.Close()
	took, errs := make([]float64, len(calls)), make([]error, len(calls))
	began := time.Now()
	parallel.Each(max(1, s.AtOnce), 0, len(calls), func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			var t carriage
			t, errs[i] = y.move(ctx, calls[i].way, calls[i].rows, &calls[i])
			took[i] = t.host.Seconds()
		}
	})
	b.Wall = time.Since(began).Seconds()
	if err := errors.Join(errs...); err != nil {
		return b, err
	}
	live := make([]float64, s.System.Layers)
	for i, c := range calls {
		b.Rows += c.rows
		live[c.layer] += meter.Invocation(took[i], c.memory, 1)
	}
	for l, of := range live {
		model := s.layer(d.Plan, l)
		b.Live, b.Model = b.Live+of, b.Model+model
		if off := model/of - 1; of > 0 && off*off > b.Worst*b.Worst {
			b.Worst = off
		}
	}
	b.Error = b.Model/b.Live - 1
	return b, nil
}

// layer is what the formulas say of a layer's bill.
func (s *Billing) layer(p *scatter.Plan, l int) float64 {
	alone := *s.System
	alone.Layers = 1
	bill := alone.Serve(&scatter.Plan{Layers: p.Layers[l : l+1]}, s.Loads[l:l+1])
	return bill.GBs
}

// invocations are those of a batch, layer by layer, each with a start of its own.
func (s *Billing) invocations(p *scatter.Plan) (all []invocation) {
	state := splitmix.Mix(s.Seed)
	for l, layer := range p.Layers {
		for e, d := range s.Loads[l] {
			f := layer.Experts[e]
			for left, r := int(d), scatter.Rows(d, f.Replicas); left > 0; left -= r {
				start := s.System.Begin() - s.System.Start() + s.System.Functions.Invocation(splitmix.Unit(splitmix.Next(&state)))
				all = append(all, invocation{l, f.Memory, min(r, left), wayOf(layer), start})
			}
		}
	}
	return all
}

// wayOf is a layer's way.
func wayOf(l scatter.Layer) way {
	switch l.Mode {
	case scatter.Pipelined:
		return way{plan.Pipelined, l.Beta}
	case scatter.Indirect:
		return way{plan.Indirect, 0}
	}
	return way{plan.Direct, 0}
}

// modeName is the mode of all layers.
func modeName(p *scatter.Plan) string {
	for _, l := range p.Layers {
		if l.Mode != p.Layers[0].Mode {
			return "several"
		}
	}
	return p.Layers[0].Mode.String()
}

// rent is the host's part of a turn as a function: it starts, gets its parameters, and has the times of
// its platform.
func (y *yard) rent(ctx context.Context, in *invocation, d *pb.Dispatch, began time.Time) served {
	call := y.platform.Call(in.memory, in.starts, began)
	err := call.Serve(ctx, y.host.link.Settings, y.streams.Subjects.Partial(yardSum), d, false, func(_ context.Context, d *pb.Dispatch, _ time.Duration, then func(*pb.Partial) error) error {
		return y.compute(d, then)
	})
	return served{time.Since(began), err}
}
