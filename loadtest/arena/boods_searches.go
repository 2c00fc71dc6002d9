package arena

import "fmt"

// BOODSSearch is what an acquisition has come to over seeds, as means and halves of intervals of 95 %.
type BOODSSearch struct {
	Shape       string `json:"shape"`
	Acquisition string `json:"acquisition"`
	Seeds       int    `json:"seeds"`
	// Ratio is the cost by that without a search on test batches, and Known by that of the plan by real rows.
	Ratio     float64 `json:"ratio_no_bo"`
	RatioHalf float64 `json:"ratio_no_bo_half"`
	Known     float64 `json:"ratio_known_rows"`
	KnownHalf float64 `json:"ratio_known_rows_half"`
	Rounds    float64 `json:"rounds"`
	// Seconds are those of a round.
	Seconds     float64 `json:"round_seconds"`
	SecondsHalf float64 `json:"round_seconds_half"`
	// Fell are the seeds whose ε fell below delta within all rounds, Below the rounds that these took, and Theorem
	// those that theorem 2 allows.
	Fell      int     `json:"seeds_below_delta"`
	Below     float64 `json:"rounds_below_delta"`
	BelowHalf float64 `json:"rounds_below_delta_half"`
	Theorem   float64 `json:"theorem_2_rounds"`
}

// searches sums up the lines of searches.
func (r *BOODSReport) searches() {
	type key struct{ shape, acquisition string }
	lines, order := map[key][]*BOODSLine{}, []key{}
	for i := range r.Lines {
		if l := &r.Lines[i]; l.Part == partFigure12 {
			k := key{l.Shape, l.Policy}
			lines[k], order = append(lines[k], l), appended(order, k)
		}
	}
	for _, k := range order {
		r.Searches = append(r.Searches, searchOf(k.shape, k.acquisition, lines[k]))
	}
}

func searchOf(shape, acquisition string, of []*BOODSLine) BOODSSearch {
	s := BOODSSearch{Shape: shape, Acquisition: acquisition, Seeds: len(of), Theorem: of[0].Theorem}
	var ratio, known, rounds, seconds, below []float64
	for _, l := range of {
		ratio, known = append(ratio, l.Ratio), append(known, l.KnownRatio)
		rounds, seconds = append(rounds, float64(l.Rounds)), append(seconds, l.RoundSeconds)
		if l.Below > 0 {
			below = append(below, float64(l.Below))
		}
	}
	s.Ratio, s.RatioHalf = interval(ratio)
	s.Known, s.KnownHalf = interval(known)
	s.Rounds, _ = interval(rounds)
	s.Seconds, s.SecondsHalf = interval(seconds)
	if s.Fell = len(below); s.Fell > 0 {
		s.Below, s.BelowHalf = interval(below)
	}
	return s
}

// String is a search for people.
func (s BOODSSearch) String() string {
	fell := ""
	if s.Fell > 0 {
		fell = fmt.Sprintf("; ε < 0.01 with %d of %d seeds after %.1f ± %.1f rounds (theorem 2: %.1f)", s.Fell, s.Seeds, s.Below, s.BelowHalf, s.Theorem)
	}
	return fmt.Sprintf("%-15s search %-8s %.4f ± %.4f of no BO, %.4f ± %.4f of known rows; %.1f rounds of %.2f ± %.2f s%s\n",
		s.Shape, s.Acquisition, s.Ratio, s.RatioHalf, s.Known, s.KnownHalf, s.Rounds, s.Seconds, s.SecondsHalf, fell)
}
