package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/ledger"
)

// Stages is the time of a step by stage, the mean of a batch of requests' steps.
type Stages struct {
	Steps int `json:"steps"`
	// Step is what attention measures around a step, Together the stages' sum.
	Step     float64 `json:"step_seconds"`
	Together float64 `json:"together_seconds"`
	// Layer is the layer forward time of MoEless, see ledger.Layer.
	Layer float64 `json:"layer_seconds"`
	Parts []Part  `json:"parts"`
}

// stages takes a batch of requests through the pipeline and says where their
// steps' time went.
func (b *Bench) stages(ctx context.Context, batch, tokens int) (*Stages, error) {
	before, err := b.pipeline.read()
	if err != nil {
		return nil, err
	}
	if _, err := b.pipeline.decode(ctx, batch, tokens); err != nil {
		return nil, err
	}
	after, err := b.pipeline.read()
	if err != nil {
		return nil, err
	}
	return b.stagesOf(after.since(before)), nil
}

func (b *Bench) stagesOf(gained readings) *Stages {
	n := gained.steps()
	step := b.stepOf(gained)
	s := &Stages{Steps: int(n), Step: gained["switchyard_step_duration_seconds_sum"] / n}
	for _, share := range step.Shares() {
		seconds := share.Time.Seconds() / n
		s.Together += seconds
		s.Parts = append(s.Parts, Part{share.Name, seconds})
	}
	for i := range step.Layers {
		s.Layer += step.Layers[i].Time().Seconds() / n / float64(len(step.Layers))
	}
	return s
}

// stepOf is all steps as if they were one.
func (b *Bench) stepOf(gained readings) (s ledger.Step) {
	seconds := func(name string) time.Duration { return time.Duration(gained[name] * float64(time.Second)) }
	for part, name := range forward.PartNames() {
		s.Own[part] = seconds("switchyard_step_part_seconds_sum{part=" + name + "}")
	}
	for i, spec := range b.settings.Model.Spec.Layer {
		if !spec.MoE {
			continue
		}
		l := ledger.Layer{Layer: i}
		for stage, name := range ledger.StageNames() {
			l.By[stage] = seconds(fmt.Sprintf("switchyard_layer_stage_seconds_sum{layer=%d}{stage=%s}", i, name))
			l.Total += l.By[stage]
		}
		s.Layers = append(s.Layers, l)
	}
	return s
}

// String is a table with a line a stage.
func (s *Stages) String() string {
	var text strings.Builder
	for _, p := range s.Parts {
		fmt.Fprintf(&text, "    %-16s %8.1f µs a step  %5.1f %%\n", p.Name, p.Seconds*1e6, 100*p.Seconds/s.Step)
	}
	fmt.Fprintf(&text, "    %-16s %8.1f µs a step  %5.1f %% of the %.1f µs that attention measures; %d steps, layer forward time %.1f µs\n",
		"together", s.Together*1e6, 100*s.Together/s.Step, s.Step*1e6, s.Steps, s.Layer*1e6)
	return text.String()
}
