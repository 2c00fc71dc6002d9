package quality

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// The ways beside numbers.
const (
	Dropped = "full"    // nothing is added for experts in S2
	Fewer   = "topk-1"  // each row leaves out its last slot, whatever the threshold: a rival
	Reroute = "reroute" // S2's slots go to the kept expert that the gate likes best: a rival
)

// Settings say what is measured.
type Settings struct {
	Model     *model.Model
	Pool      *pool.Pool
	Recording *recording.Recording
	// Seed is that of the distillation: sequences that it learnt from are left out.
	Seed    uint64
	Bundles map[int]*united.Bundle // by way
	Ways    []string               // numbers, full, topk-1, reroute
	// Thresholds are in millionths. Threshold 1 is always measured.
	Thresholds []int
	Batches    []int // sequences that decode together
	Sequences  int   // of each domain
	Length     int   // tokens of each, at most
	Choices    int   // of continuations, in all; 0 is none
	Tasks      []Task
	Questions  int   // of each task, at most
	Shots      int   // answered questions before each
	Exempt     []int // layers that are not browned out
	ByLoss     bool  // S2 by the error of distillation, not by rows
	Wire       tensor.Wire
	Progress   func(format string, args ...any)
}

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	spec := &s.Model.Spec
	switch {
	case s.Recording.Model != s.Model.Hash:
		return fmt.Errorf("the recording is of the model with hash %.12s, not %.12s; record this model", s.Recording.Model, s.Model.Hash)
	case len(s.Ways) == 0 || len(s.Thresholds) == 0 || len(s.Batches) == 0:
		return errors.New("ways, thresholds and batches are wanted, as in --way 2,4,8,full --threshold 0:1:0.1 --batch 1,8,64")
	case s.Sequences < 1 || s.Length < 2 || s.Choices < 0 || s.Length > spec.MaxPositions:
		return fmt.Errorf("%d sequences of each domain, %d tokens of each, and %d choices are wanted; sequences need 2 tokens, and the model has %d positions", s.Sequences, s.Length, s.Choices, spec.MaxPositions)
	}
	if len(s.Tasks) > 0 && (s.Questions < 1 || s.Shots < 0 || s.Shots > MostShots) {
		return fmt.Errorf("%d questions of each task after %d that are answered are wanted; there must be 1, and at most %d answered", s.Questions, s.Shots, MostShots)
	}
	for _, w := range s.Ways {
		if err := s.checkWay(w); err != nil {
			return err
		}
	}
	for _, t := range s.Thresholds {
		if t < 0 || t > brownout.One {
			return fmt.Errorf("a threshold is %d millionths; it must be 0 to %d", t, brownout.One)
		}
	}
	for _, b := range s.Batches {
		if b < 1 || b > 4096 {
			return fmt.Errorf("a batch has %d sequences; it must be 1 to 4096", b)
		}
	}
	return s.checkExempt()
}

func (s *Settings) checkExempt() error {
	spec := &s.Model.Spec
	for _, l := range s.Exempt {
		if l < 0 || l >= spec.Layers || !spec.Layer[l].MoE {
			return fmt.Errorf("layer %d is exempt, but the model has no experts there; its layers are 0 to %d", l, spec.Layers-1)
		}
	}
	return nil
}

func (s *Settings) checkWay(w string) error {
	if w == Dropped || w == Fewer || w == Reroute {
		return nil
	}
	n, err := strconv.Atoi(w)
	if err != nil || n < 2 || n > s.Model.Spec.Experts {
		return fmt.Errorf("way %q: a way is a number from 2 to the layer's %d experts, or %s, %s or %s", w, s.Model.Spec.Experts, Dropped, Fewer, Reroute)
	}
	if s.Bundles[n] == nil {
		return fmt.Errorf("way %d: there are no united experts of it; name their folder with --united", n)
	}
	return nil
}

func (s *Settings) exempt(layer int) bool { return slices.Contains(s.Exempt, layer) }
