package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Devices hold a model for the direct path, where a pipeline's services have it: on the
// same GPUs, or the CPU. The routed experts are loaded once, and the pipelines have them
// from here.
type Devices struct {
	// Names are what computes.
	Names Names
	// Experts are for the expert hosts of all pipelines.
	Experts device.Device

	machine machine
	on      direct.Parts
	room    int // rows of a step that there is memory for
	rows    int // of a step, as of the services'
	kv      int64
	ends    []func()
}

// directRows is what a step on the CPU has room for at least: the longest of --rows.
const directRows = 4096

// roomOnCPU is how many rows a step on the CPU has room for, where the services' have so many.
func roomOnCPU(rows int) int { return max(directRows, rows) }

// OpenDevices measures the machine, if that computes, and loads a model's experts, and what
// else the services have on GPUs. A sequence has so many positions at most.
func OpenDevices(ctx context.Context, m *model.Model, p *pool.Pool, w tensor.Wire, of cluster.Services, positions int) (_ *Devices, err error) {
	d := &Devices{Names: namesOf(of), room: roomOnCPU(of.Attention.MaxRows), rows: of.Attention.MaxRows, kv: KVBytes}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.Names.onProcessor() {
		d.machine = machineFor(m, p) // before the weights: it takes memory
	}
	if err := d.openExperts(ctx, m, p, w, of.Expert.GPU); err != nil {
		return nil, err
	}
	if gpu := of.Gate.GPU; gpu != nil {
		gates, err := gpu.Gates(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("loading the direct path's gates: %w", err)
		}
		d.on.Gates, d.ends = gates, append(d.ends, gates.Close)
	}
	if gpu := of.Attention.GPU; gpu != nil {
		d.room, d.kv = d.rows, 0
		attention, err := gpu.Attention(ctx, m, p, gpus.Steps{Wire: w, Positions: positions, Rows: d.rows, Lanes: 1})
		if err != nil {
			return nil, fmt.Errorf("loading the direct path's attention: %w", err)
		}
		d.on.Backbone, d.ends = forward.NewBackbone(&m.Spec, attention), append(d.ends, attention.Close)
	}
	return d, nil
}

// mostLoads is how many experts are loaded at a time at most: random weights are made on a
// core each, and a GPU has two buffers for each.
const mostLoads = 8

// loadingGarbage is how much may gather while experts are loaded, in percent of what
// lives. That is little work to find: weights refer to nothing.
const loadingGarbage = 10

func (d *Devices) openExperts(ctx context.Context, m *model.Model, p *pool.Pool, w tensor.Wire, gpu *gpus.GPU) error {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(loadingGarbage))
	}
	s := device.Settings{Loads: min(max(device.DefaultLoads, p.Threads()), mostLoads)}
	d.Experts = device.NewCPU(m, p, s)
	if gpu != nil {
		on, err := gpu.Experts(m, w, s) //nolint:contextcheck,nolintlint // loads have a context of their own
		if err != nil {
			return fmt.Errorf("opening the experts' device: %w", err)
		}
		d.Experts = on
	}
	d.on.Experts, d.ends = d.Experts, append(d.ends, d.Experts.Close)
	err := device.LoadAll(ctx, d.Experts, m.Spec)
	var refused *device.RefusedError
	if errors.As(err, &refused) {
		return fmt.Errorf("both sides have all experts of model %s on one device, which is too small: %w", m.Name, err)
	}
	if gpu != nil {
		return err
	}
	return unloaded(err)
}

// unloaded marks the failure of a processor's load as one of weights that do not mend themselves.
func unloaded(err error) error {
	if ofWeights(err) {
		return &deployment.WeightsError{Doing: "the weights cannot be loaded", Err: err}
	}
	return err
}

// ofWeights reports whether err is of a load that failed, and the object store is not why.
func ofWeights(err error) bool {
	var failed *device.FailedError
	var load *direct.LoadError
	var object *weights.ObjectError
	return (errors.As(err, &failed) || errors.As(err, &load)) && !errors.As(err, &object)
}

// Close frees everything. The pipelines are closed before.
func (d *Devices) Close() {
	for _, end := range d.ends {
		end()
	}
	d.ends = nil
}

// Names are what computes, on both sides.
type Names struct {
	Experts   string `json:"device"`
	Attention string `json:"attention_device"`
	Gates     string `json:"gate_device"`
}

func namesOf(s cluster.Services) Names {
	return Names{nameOf(s.Expert.GPU), nameOf(s.Attention.GPU), nameOf(s.Gate.GPU)}
}

func nameOf(gpu *gpus.GPU) string {
	if gpu == nil {
		return "cpu"
	}
	return "cuda:" + gpu.Info.Name
}

// String is one name if all of it is one device.
func (n Names) String() string {
	if n == (Names{n.Experts, n.Experts, n.Experts}) {
		return n.Experts
	}
	return fmt.Sprintf("%s (attention %s, gates %s)", n.Experts, n.Attention, n.Gates)
}

// onProcessor reports whether the processor computes all that takes long, so that its
// ceilings are those to judge by.
func (n Names) onProcessor() bool { return n.Experts == "cpu" && n.Attention == "cpu" }
