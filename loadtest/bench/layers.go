package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Layer is the time of a layer for so many rows, a prompt's, beside what the
// machine's ceilings allow. Embedding and head do not count.
type Layer struct {
	Model    string `json:"model"`
	Layers   int    `json:"layers"`
	Rows     int    `json:"rows"`
	Grouping string `json:"grouping"`
	Wire     string `json:"wire"`
	Hops     string `json:"hops"`
	Names
	// Pipeline and Direct are the median seconds of a layer.
	Pipeline float64 `json:"pipeline_layer_seconds"`
	Direct   float64 `json:"direct_layer_seconds"`
	Ratio    float64 `json:"ratio"`
	// Bytes are the weights that a layer reads for these rows, FLOPs what it
	// computes. Floor is the least time for both at the machine's ceilings.
	Bytes float64 `json:"weight_bytes"`
	FLOPs float64 `json:"flops"`
	Floor float64 `json:"floor_seconds"`
	// The processor's ceilings in this run, and the direct path's shares of them; these and
	// Floor are 0 where a GPU computes experts or attention.
	Bandwidth      float64 `json:"bandwidth_bytes_per_s"`
	Peak           float64 `json:"flops_per_s"`
	BandwidthRatio float64 `json:"direct_bandwidth_ratio"`
	FlopsRatio     float64 `json:"direct_flops_ratio"`
}

// minLayerSteps is the fewest that are measured of either side.
const minLayerSteps = 3

// CheckRows refuses prompts that leave no room for a token.
func CheckRows(m *model.Model, rows []int) error {
	if n, most := slices.Max(rows), m.Spec.MaxPositions-1; n > most {
		return fmt.Errorf("--rows has %d; model %s has %d positions: it must be 1 to %d", n, m.Name, most+1, most)
	}
	return nil
}

// MeasureLayer times a layer on both sides, one after the other.
func (b *Bench) MeasureLayer(ctx context.Context, rows int) (*Layer, error) {
	spec := &b.settings.Model.Spec
	r := &Layer{
		Model: b.pipeline.name, Layers: spec.Layers, Rows: rows, Grouping: b.settings.Grouping, Wire: b.settings.Wire, Hops: b.settings.Hops, Names: b.pipeline.devices(),
		Bandwidth: b.machine.bandwidth, Peak: b.machine.flops,
	}
	b.settings.Progress("%d rows: by direct calls…", rows)
	if err := b.directLayers(ctx, r); err != nil {
		return nil, err
	}
	b.settings.Progress("%d rows: through the pipeline…", rows)
	if err := b.pipelineLayers(ctx, r); err != nil {
		return nil, err
	}
	r.FLOPs = layerFLOPs(spec, rows)
	r.Floor = max(share(r.Bytes, r.Bandwidth), share(r.FLOPs, r.Peak))
	r.Ratio, r.BandwidthRatio, r.FlopsRatio = r.Direct/r.Pipeline, share(r.Bytes/r.Direct, r.Bandwidth), share(r.FLOPs/r.Direct, r.Peak)
	return r, nil
}

// layerFLOPs is what a layer computes for a prompt of so many rows, on average.
func layerFLOPs(spec *model.Spec, rows int) float64 {
	return float64(rows) * (2*float64(spec.Parameters().ActiveInLayers) + spec.ScoreFLOPs(rows/2)) / float64(spec.Layers)
}

func perLayer(s forward.Spent, layers int) float64 {
	return (s[forward.Attention] + s[forward.Dense] + s[forward.Shared] + s[forward.Waiting]).Seconds() / float64(layers)
}

// repeat calls f at least minLayerSteps times, and for about Seconds, after a first
// call that warms up.
func (b *Bench) repeat(f func() error) error {
	runtime.GC()
	if err := f(); err != nil {
		return err
	}
	for n, began := 0, time.Now(); n < minLayerSteps || since(began) < b.settings.Seconds; n++ {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// directLayers fills in the direct path's part.
func (b *Bench) directLayers(ctx context.Context, r *Layer) error {
	d := b.direct
	var times []float64
	before := d.runner.WeightBytes()
	err := b.repeat(func() error {
		seqs, err := d.add(1, r.Rows, 1)
		if err != nil {
			return err
		}
		defer closeAll(seqs)
		err = d.runner.Step(ctx, seqs)
		times = append(times, perLayer(d.clock.Spent, r.Layers))
		return err
	})
	if err != nil {
		return err
	}
	head := 2 * float64(d.spec.Vocab) * float64(d.spec.Hidden)
	r.Bytes = (float64(d.runner.WeightBytes()-before)/float64(len(times)) - head) / float64(r.Layers)
	r.Direct = median(times[1:])
	return nil
}

// pipelineLayers fills in the pipeline's part.
func (b *Bench) pipelineLayers(ctx context.Context, r *Layer) error {
	b.settings.Heard.reset(r.Rows)
	if err := b.repeat(func() error { return b.pipeline.prefill(ctx, r.Rows) }); err != nil {
		return err
	}
	times := b.settings.Heard.take()
	if len(times) <= minLayerSteps {
		return fmt.Errorf("%d steps of the pipeline had %d rows; more than %d are needed", len(times), r.Rows, minLayerSteps)
	}
	r.Pipeline = median(times[1:])
	return nil
}

// prefill asks for one token after a prompt, and waits for the end.
func (s *pipelineSide) prefill(ctx context.Context, rows int) error {
	one := int32(1)
	stream, err := s.client.Prompt(ctx, &pb.Prompt{InputIds: promptIDs(0, rows, s.vocab), MaxTokens: &one, IgnoreEos: true})
	if err != nil {
		return err
	}
	for chunk, err := range stream.Chunks() {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// LayerTimes hears of a pipeline's steps and keeps the layer times of those that
// have as many rows as wanted.
type LayerTimes struct {
	mu    sync.Mutex
	rows  int
	times []float64
}

func (t *LayerTimes) reset(rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows, t.times = rows, nil
}

func (t *LayerTimes) take() []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times
}

// Step takes the times of a step.
func (t *LayerTimes) Step(s *ledger.Step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Rows == t.rows && len(s.Layers) > 0 {
		t.times = append(t.times, perLayer(s.Own, len(s.Layers)))
	}
}

// String is the result for people.
func (l *Layer) String() string {
	text := fmt.Sprintf("%s  %d rows  wire %s  hops %s  %s: a layer takes %s through the pipeline, %s direct (ratio %.2f); ",
		l.Model, l.Rows, l.Wire, l.Hops, l.Names, milliseconds(l.Pipeline), milliseconds(l.Direct), l.Ratio)
	if !l.onProcessor() {
		return text + fmt.Sprintf("%.0f MB of weights, %.1f GFLOP\n", l.Bytes/1e6, l.FLOPs/1e9)
	}
	return text + fmt.Sprintf("floor %s (%.0f MB of weights at %.1f GB/s, %.1f GFLOP at %.0f GFLOP/s); direct reads at %.2f and computes at %.2f of these\n",
		milliseconds(l.Floor), l.Bytes/1e6, l.Bandwidth/1e9, l.FLOPs/1e9, l.Peak/1e9, l.BandwidthRatio, l.FlopsRatio)
}

func milliseconds(s float64) string { return fmt.Sprintf("%.2f ms", 1e3*s) }
