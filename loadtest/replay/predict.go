package replay

import (
	"time"

	"github.com/switchyard/switchyard/pkg/control/ledger"
)

// Around is what the pipeline takes around the layers with experts, which a simulator of
// experts knows nothing of. In seconds.
type Around struct {
	// Step is of a step beside its layers' times, by its rows:
	// attention, gates, the LM head and sampling.
	Step Curve `json:"step"`
	// Gap is from a step's end to the beginning of the next one, where rows wait for it.
	Gap float64 `json:"gap_s"`
	// Intake is from the sending of a request to the step that it begins, where none is
	// under way; Delivery from the end of a step to the arrival of its tokens.
	Intake   float64 `json:"intake_s"`
	Delivery float64 `json:"delivery_s"`
	// Beyond is how much longer each step took, in their order, than the means say: with its
	// messages and the gap before it. A queue grows with what is slow for a while, which a mean does not show.
	Beyond []float64 `json:"-"`
}

// Around measures it: means, as the figures that are predicted are.
func (r *Result) Around() Around {
	var a Around
	for i := range r.Steps {
		s := &r.Steps[i]
		a.Step.add(s.Rows, (s.Took - s.layers()).Seconds())
	}
	var gaps, intakes, deliveries []float64
	for i, w := range r.itinerary() {
		s := &r.Steps[i]
		switch {
		case i > 0 && r.Steps[i-1].end() < w.ready:
			intakes = append(intakes, (s.At - w.ready).Seconds())
		case i > 0:
			gaps = append(gaps, max(0, (s.At-r.Steps[i-1].end()).Seconds()))
		}
		for _, t := range w.tokens {
			if t.came > 0 {
				deliveries = append(deliveries, max(0, (t.came-s.end()).Seconds()))
			}
		}
	}
	a.Gap, a.Intake, a.Delivery = mean(gaps), mean(intakes), mean(deliveries)
	return a
}

func (s *Step) layers() (sum time.Duration) {
	for i := range s.Layers {
		sum += s.Layers[i].Time()
	}
	return sum
}

// computed is what hosts computed in them, and waited for weights.
func (s *Step) computed() (sum time.Duration) {
	for i := range s.Layers {
		sum += s.Layers[i].By[ledger.ExpertCompute] + s.Layers[i].By[ledger.ExpertStall]
	}
	return sum
}

func (s *Step) end() time.Duration { return s.At + s.Took }

// stop is what a step has to do with requests.
type stop struct {
	// ready is when the last request whose first rows are in it was sent; 0: none is.
	ready  time.Duration
	tokens []token
}

// token is one that came of a step.
type token struct {
	answer int
	came   time.Duration // 0: it shared a chunk with others
}

// itinerary says of each step which requests begin in it and which tokens come of it.
func (r *Result) itinerary() []stop {
	answers := map[string]int{}
	for i := range r.Answers {
		answers[r.Answers[i].ID] = i
	}
	begun, had := make([]bool, len(r.Answers)), make([]int, len(r.Answers))
	all := make([]stop, len(r.Steps))
	for i := range r.Steps {
		for _, p := range r.Steps[i].Parts {
			at, ours := answers[p.Request]
			if !ours {
				continue
			}
			a := &r.Answers[at]
			if !begun[at] {
				begun[at], all[i].ready = true, max(all[i].ready, a.Sent)
			}
			for range p.Tokens {
				t := token{answer: at}
				if len(a.Times) == len(a.Tokens) && had[at] < len(a.Times) {
					t.came = a.Times[had[at]]
				}
				all[i].tokens = append(all[i].tokens, t)
				had[at]++
			}
		}
	}
	return all
}

// beyond compares each step with what the means say of its rows.
func (r *Result) beyond(m Messages, a Around) []float64 {
	all := make([]float64, len(r.Steps))
	for i, w := range r.itinerary() {
		s := &r.Steps[i]
		all[i] = (s.Took - s.computed()).Seconds() - float64(len(s.Layers))*m.ByRows.At(float64(s.Rows)) - a.Step.At(float64(s.Rows))
		if i > 0 && r.Steps[i-1].end() >= w.ready {
			all[i] += max(0, (s.At-r.Steps[i-1].end()).Seconds()) - a.Gap
		}
	}
	return all
}

// draws is how many times requests are predicted, each time with the deviations of another
// run's steps from another place on.
const draws = 16

// Predict is what requests would have taken, had each step's layers taken so many seconds.
// Steps have the rows that they had, in their order; a step begins when the one before has
// ended and its requests have come, on a clock of its own: no time of the run is used but
// those at which requests were sent.
func (r *Result) Predict(layers []float64, m Messages, a Around) Latencies {
	stops := r.itinerary()
	if len(a.Beyond) == 0 {
		return latencies(r.predict(stops, layers, m, a, func(int) float64 { return 0 }))
	}
	var spans []span
	for d := range draws {
		from := d * len(a.Beyond) / draws
		spans = append(spans, r.predict(stops, layers, m, a, func(step int) float64 { return a.Beyond[(from+step)%len(a.Beyond)] })...)
	}
	l := latencies(spans)
	l.Requests /= draws
	return l
}

// predict makes one draw: beyond is how much longer a step takes than the means say.
func (r *Result) predict(stops []stop, layers []float64, m Messages, a Around, beyond func(step int) float64) []span {
	spans := make([]span, len(r.Answers))
	now := 0.0
	for i, w := range stops {
		s := &r.Steps[i]
		now += a.Gap
		if w.ready > 0 {
			now = max(now, w.ready.Seconds()+a.Intake)
		}
		now += layers[i] + max(0, float64(len(s.Layers))*m.Of(s.Rows)+a.Step.At(float64(s.Rows))+beyond(i))
		for _, t := range w.tokens {
			spans[t.answer].token(r.Answers[t.answer].Sent, time.Duration((now+a.Delivery)*float64(time.Second)))
		}
	}
	return spans
}

// token takes in that one more came.
func (s *span) token(sent, at time.Duration) {
	if s.tokens == 0 {
		s.sent, s.first = sent, at
	}
	s.last = at
	s.tokens++
}
