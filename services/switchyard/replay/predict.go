package replay

import "time"

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

// layers are the times of the step's layers with experts.
func (s *Step) layers() (sum time.Duration) {
	for i := range s.Layers {
		sum += s.Layers[i].Time()
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

// Predict is what requests would have taken, had each step's layers taken so many seconds.
// Steps have the rows that they had, in their order; a step begins when the one before has
// ended and its requests have come, on a clock of its own: no time of the run is used but
// those at which requests were sent.
func (r *Result) Predict(layers []float64, m Messages, a Around) Latencies {
	spans := make([]span, len(r.Answers))
	now := 0.0
	for i, w := range r.itinerary() {
		s := &r.Steps[i]
		now += a.Gap
		if w.ready > 0 {
			now = max(now, w.ready.Seconds()+a.Intake)
		}
		now += layers[i] + float64(len(s.Layers))*m.Of(s.Rows) + a.Step.At(float64(s.Rows))
		for _, t := range w.tokens {
			spans[t.answer].token(r.Answers[t.answer].Sent, time.Duration((now+a.Delivery)*float64(time.Second)))
		}
	}
	return latencies(spans)
}

// token takes in that one more came.
func (s *span) token(sent, at time.Duration) {
	if s.tokens == 0 {
		s.sent, s.first = sent, at
	}
	s.last = at
	s.tokens++
}
