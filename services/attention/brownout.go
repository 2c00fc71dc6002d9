package attention

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/control/directives"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// Brownout says when other experts stand in for some, and how far that may go (docs/brownout.md).
type Brownout struct {
	// Strategy is what becomes of the rows of experts that are spared; 0: none are.
	Strategy brownout.Strategy
	// United is the folder of united experts, and Way how many experts each stands in for.
	United string
	Way    int
	// Prefill and Decode are the most that steps are to take.
	Prefill, Decode time.Duration
	// Paper has thresholds move as the paper's algorithm 2 says, and Predictive by what steps to come
	// are predicted to take.
	Paper, Predictive bool
	// Exempt are layers in which each row has its own experts.
	Exempt []int
	// MaxLoss bounds what a layer's expert outputs lose, as a share; 1: nothing does.
	MaxLoss float64
}

// BrownoutFlags are those of attention replicas.
type BrownoutFlags struct {
	Brownout   string        `default:"off" enum:"off,partial,full" help:"What becomes of the rows of little used experts while steps take longer than they are to: off (their own experts compute them), partial (united experts do) or full (none does)." placeholder:"KIND"`
	Way        int           `default:"8" help:"With --brownout partial: how many experts a united expert stands in for." placeholder:"N" advanced:""`
	SLOPrefill time.Duration `name:"slo-prefill" default:"250ms" help:"With --brownout: what a step with rows of prompts is to take at most." placeholder:"TIME" advanced:""`
	SLODecode  time.Duration `name:"slo-decode" default:"150ms" help:"With --brownout: what a step of answers alone is to take at most." placeholder:"TIME" advanced:""`
	BrownoutBy string        `default:"steady" enum:"steady,paper,predictive" help:"How thresholds follow steps' times: paper (BrownoutServe's algorithm 2), steady (the same, but it cuts again sooner, and does not soon try again what was too high) or predictive (the largest at which steps to come are predicted to take no longer, by fitted costs and the requests that wait)." placeholder:"NAME" advanced:""`
	Exempt     []int         `help:"Layers that brownouts spare." placeholder:"LAYER" advanced:""`
	MaxLoss    string        `default:"100%" help:"With --brownout: the most that a layer's expert outputs may lose, by the united experts' table of errors, such as 5%. No threshold falls lower, no request has a larger share of its rows degraded, and new requests are refused where that does not suffice." placeholder:"PERCENT" advanced:""`
}

func (f BrownoutFlags) config(folder string) (b Brownout, err error) {
	if f.Brownout == "off" || f.Brownout == "" {
		return b, nil
	}
	b = Brownout{
		United: folder, Way: f.Way, Prefill: f.SLOPrefill, Decode: f.SLODecode, Paper: f.BrownoutBy == "paper", Predictive: f.BrownoutBy == "predictive", Exempt: slices.Sorted(slices.Values(f.Exempt)),
	}
	if b.MaxLoss, err = percent(f.MaxLoss); err != nil {
		return b, err
	}
	if b.Strategy, err = brownout.ParseStrategy(f.Brownout); err != nil {
		return b, fmt.Errorf("--brownout: %w", err)
	}
	return b, b.check()
}

// check finds what is wrong whatever the model.
func (b Brownout) check() error {
	switch {
	case b.Prefill <= 0:
		return fmt.Errorf("--slo-prefill is %v; it must be above 0, such as 250ms", b.Prefill)
	case b.Decode <= 0:
		return fmt.Errorf("--slo-decode is %v; it must be above 0, such as 150ms", b.Decode)
	case b.Strategy == brownout.Partial && b.Way < 2:
		return fmt.Errorf("--way is %d; a united expert stands in for at least 2 experts", b.Way)
	case b.Strategy == brownout.Partial && b.United == "":
		return errors.New("--brownout partial needs --united: a folder of united experts, which switchyard distill makes; --brownout full does without")
	}
	return nil
}

// percent is a share, such as 5% or 0.05.
func percent(text string) (float64, error) {
	number, is := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if is {
		share /= 100
	}
	if err != nil || !(share > 0 && share <= 1) || math.IsNaN(share) {
		return 0, fmt.Errorf("--max-loss is %.40q; it must be above 0%% and at most 100%%, such as 5%%", text)
	}
	return share, nil
}

// Check refuses what the model or its united experts do not have.
func (b Brownout) Check(m *model.Model) error {
	if b.Strategy == 0 {
		return nil
	}
	if err := b.check(); err != nil {
		return err
	}
	layers := deployment.MoELayers(m)
	for _, l := range b.Exempt {
		if !slices.Contains(layers, l) {
			return fmt.Errorf("--exempt names layer %d; the layers of %s that have experts are %v", l, m.Name, layers)
		}
	}
	if err := (brownout.Settings{Strategy: b.Strategy, Way: b.Way}).Check(m.Spec.Experts); err != nil {
		return fmt.Errorf("--way: %w", err)
	}
	if b.Strategy != brownout.Partial {
		return nil
	}
	if _, err := b.stock(m)(b.Way); err != nil {
		return fmt.Errorf("--united: %w", err)
	}
	return nil
}

// stock looks what the united experts of a way are.
func (b Brownout) stock(m *model.Model) func(way int) (directives.Bundle, error) {
	return func(way int) (directives.Bundle, error) {
		if b.United == "" {
			return directives.Bundle{}, errors.New("attention was started without --united")
		}
		if way < 2 || way > m.Spec.Experts {
			return directives.Bundle{}, fmt.Errorf("the way is %d; a united expert stands in for 2 to %d experts", way, m.Spec.Experts)
		}
		of, err := united.Open(b.United, way, m)
		if err != nil {
			return directives.Bundle{}, err
		}
		worst := 0.0
		for _, l := range deployment.MoELayers(m) {
			if !slices.Contains(b.Exempt, l) {
				worst = max(worst, of.Error(l))
			}
		}
		return directives.Bundle{ID: of.ID(), Error: worst}, of.Close()
	}
}

// Config is what an operator sets.
type Config struct {
	// MaxModelLen bounds a sequence, prompt and generated tokens together; 0 is the model's limit.
	MaxModelLen int
	// KVBytes is the memory for keys and values; on a GPU 0 is all that is left.
	KVBytes int64
	// AutoMemory says that KVBytes is to be set by what memory there is.
	AutoMemory bool
	// MaxSequences bounds the sequences that a replica has at once.
	MaxSequences int
	// MaxRows bounds the rows of a microbatch.
	MaxRows int
	// Microbatches is how many microbatches are in flight at once.
	Microbatches int
	// MinRows is the fewest decode rows for which another worker is used; 0 is by the model's size.
	MinRows int
	// PromptDrag is by what part of itself prompts may lengthen a step that has rows of answers; 0: by any.
	PromptDrag float64
	// Speculate is how many tokens of an answer are drafted from its text at most, and checked in
	// one step; 0: none are.
	Speculate int
	// PrefixCache has sequences begin with the keys and values that others of their tenant have of
	// the same ids.
	PrefixCache bool
	// LongSteps lets prefill take as long as MaxRows rows take, for measurements.
	LongSteps bool
	// GPU is what computes in the CPU's place; nil is none.
	GPU *gpus.GPU
	// Brownout says when other experts stand in for some.
	Brownout Brownout
	// Before is waited for before a sequence of this replica begins; nil: nothing is.
	Before func(context.Context, *pb.Sequence)
	// Directives are obeyed in place of a controller's, for tests; nil: none are.
	Directives engine.Directives
}

// Check refuses memory that does not hold a page of a model, and models whose attention
// the GPU does not compute.
func (c Config) Check(m *model.Model) error {
	if err := c.Brownout.Check(m); err != nil {
		return err
	}
	if c.GPU != nil {
		return c.GPU.Backend.CheckAttention(m)
	}
	if page := kvcache.ShapeOf(&m.Spec).PageBytes(); c.KVBytes < page {
		return fmt.Errorf("--kv-memory is %d bytes; a page of model %s has %d: give at least as much", c.KVBytes, m.Name, page)
	}
	return nil
}

// weights is what a replica computes with: a model's weights but those of routed experts, and
// its pages.
type weights struct {
	d      *deployment.Deployment
	config Config

	backbone *forward.Backbone
	gpu      gpus.Attention // or nil
	kv       *kvcache.Pool
}

// load brings the backbone's weights to what computes with them, and makes its pages.
func (w *weights) load(ctx context.Context) error {
	began := time.Now()
	err := w.d.LoadWeights(ctx, "loading attention's weights", func(m *model.Model) (err error) {
		positions := m.Spec.LongestSequence(w.config.MaxModelLen)
		if w.config.GPU != nil {
			return w.loadOnGPU(ctx, m, positions)
		}
		w.backbone, err = forward.LoadBackbone(m, w.d.Pool, positions)
		return err
	})
	if err != nil {
		return err
	}
	if w.kv, err = w.backbone.NewPool(w.config.MaxRows, w.config.KVBytes); err != nil && w.config.GPU != nil {
		return &gpus.Error{Err: err}
	}
	if err == nil {
		w.tellLoaded(time.Since(began))
	}
	return err
}

// tellLoaded says what was loaded, and how many positions the pages hold.
func (w *weights) tellLoaded(took time.Duration) {
	bytes := w.backbone.Bytes()
	w.d.Logger.Info("attention's weights are loaded", "bytes", bytes, "for", took.Round(time.Millisecond), "bytes_per_second", int64(float64(bytes)/max(took.Seconds(), 1e-3)),
		"kv_bytes", int64(w.kv.Capacity())*w.kv.PageBytes(), "kv_pages", w.kv.Capacity())
}

func (w *weights) loadOnGPU(ctx context.Context, m *model.Model, positions int) error {
	on, err := w.config.GPU.Attention(ctx, m, w.d.Pool, gpus.Steps{
		Wire: w.d.Wire, Positions: positions, Rows: w.config.MaxRows, Lanes: w.config.Microbatches,
		Ungraphed: w.ungraphed,
	})
	if err != nil {
		return err
	}
	w.backbone, w.gpu = forward.NewBackbone(&m.Spec, on), on
	return nil
}

func (w *weights) ungraphed(why error) {
	w.d.Logger.Warn("the GPU makes or runs no graphs; from the next step on its launches go one by one", "error", why)
}

// tellRoom warns of memory that holds less than a sequence may have: what is longer is
// accepted only while another replica has room for it.
func (w *weights) tellRoom() {
	if short := shortOfRoom(w.kv, w.d.Model.Spec.LongestSequence(w.config.MaxModelLen), w.config.GPU != nil); short != nil {
		w.d.Logger.Warn("keys and values have room for fewer positions than a sequence may have: longer requests are refused, unless another attention replica has the room", short...)
	}
}

// shortOfRoom says how many positions of a sequence's fit, and what to do; nil: all do.
func shortOfRoom(kv *kvcache.Pool, longest int, onGPU bool) []any {
	holds := kv.Holds(longest)
	if holds >= longest {
		return nil
	}
	needed := int64(kv.Need(longest)) * kv.PageBytes()
	cure := fmt.Sprintf("give --kv-memory %dMiB, or --max-model-len %d", (needed+1<<20-1)>>20, holds)
	if onGPU {
		cure = fmt.Sprintf("give --gpu-memory more, or --max-model-len %d", holds)
	}
	return []any{"positions", holds, "context", longest, "needed_bytes", needed, "cure", cure}
}
