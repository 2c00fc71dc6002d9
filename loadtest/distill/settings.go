package distill

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/loadtest/distill/whole"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
)

// The losses.
const (
	Routed = "routed" // for rows that chose a member: ‖Σ gᵢ(Eᵢ − U)‖²
	Eq4    = "eq4"    // every member on every row
)

// Settings say what is distilled.
type Settings struct {
	Model     *model.Model
	Recording *recording.Recording
	Ways      []int
	Loss      string
	Start     string
	Group     string
	Passes    int     // over a student's rows, at most
	Patience  int     // passes without a better validation after which it ends
	Batch     int     // rows of a step
	Rate      float32 // of the first step
	// Rows is the most that a student learns from; a sixth of that validates, and a third measures.
	Rows int
	// Through is how many rows of each way go through the whole model in brownouts, for its students to
	// learn from what it says; 0: they learn from the experts' outputs alone.
	Through     int
	ThroughRate float32 // of learning by these, at most
	Seed        uint64
	Threads     int
	// Out is the folder of the files; what is done so far lies there too.
	Out string
	// Progress hears what is going on.
	Progress func(format string, args ...any)
}

// Default settings.
func Default() Settings {
	return Settings{Ways: []int{2, 4, 8}, Loss: Routed, Start: Best, Group: ByID, Passes: 3, Patience: 3, Batch: 64, Rate: 3e-3, Rows: 24_000, ThroughRate: 2e-3, Seed: 1, Threads: 1}
}

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	r, spec := s.Recording, &s.Model.Spec
	switch {
	case len(s.Ways) == 0:
		return errors.New("no way is given; a way is how many experts a united expert stands in for, as in --way 2,4,8")
	case s.Loss != Routed && s.Loss != Eq4:
		return fmt.Errorf("there is no loss %q; there are %s and %s", s.Loss, Routed, Eq4)
	case s.Start != Best && !slices.Contains(starts, s.Start):
		return fmt.Errorf("a student cannot start as %q; it can as %v, or as the %s of them", s.Start, starts, Best)
	case s.Group != ByID && s.Group != ByOutput:
		return fmt.Errorf("experts cannot be grouped by %q; they can by %s and %s", s.Group, ByID, ByOutput)
	case s.Through < 0 || !(s.ThroughRate > 0):
		return fmt.Errorf("students are to learn from %d rows through the whole model, at rate %g; rows must be at least 0, and the rate above 0", s.Through, s.ThroughRate)
	case s.Passes < 0 || s.Patience < 1 || s.Batch < 1 || s.Rows < 12 || !(s.Rate > 0):
		return fmt.Errorf("a student learns in %d passes with patience %d, from %d rows in batches of %d, at rate %g; passes must be at least 0, rows 12, and the others above 0",
			s.Passes, s.Patience, s.Rows, s.Batch, s.Rate)
	case r.Model != s.Model.Hash:
		return fmt.Errorf("the recording is of the model with hash %.12s, not %.12s; record this model", r.Model, s.Model.Hash)
	case r.Hidden != spec.Hidden || r.Experts != spec.Experts || r.TopK != spec.TopK:
		return errors.New("the recording has no inputs of gates, or other numbers of inputs and experts than the model; record it anew")
	}
	for i, w := range s.Ways {
		if w < 2 || w > spec.Experts || slices.Contains(s.Ways[:i], w) {
			return fmt.Errorf("way %d: a united expert stands in for 2 experts at least, and for the layer's %d at most; each way is named once", w, spec.Experts)
		}
	}
	if s.Through > 0 {
		if err := whole.Check(spec); err != nil {
			return fmt.Errorf("%w (--through 0)", err)
		}
	}
	for l, layer := range spec.Layer {
		if e := layer.Expert; layer.MoE && (e.Activation != model.SwiGLU || e.Bias || layer.Router.OnInput) {
			return fmt.Errorf("the experts of layer %d are no SwiGLU networks without biases, scaled by weights behind them: such are not distilled", l)
		}
	}
	return nil
}

// Note tells students of these settings from others.
func (s *Settings) Note() string {
	return fmt.Sprintf("loss %s, start %s, groups by %s, %d rows through the whole model at rate %g, passes %d, patience %d, batch %d, rate %g, rows %d, seed %d; recording: %s",
		s.Loss, s.Start, s.Group, s.Through, s.ThroughRate, s.Passes, s.Patience, s.Batch, s.Rate, s.Rows, s.Seed, s.Recording.Note)
}

// Data is the digest of the tokens that were recorded, in their order.
func Data(r *recording.Recording) string {
	h := sha256.New()
	var buf []byte
	for i := range r.Rows {
		row := r.Row(i)
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(row.Sequence))
		buf = binary.LittleEndian.AppendUint32(buf, row.Token)
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}
