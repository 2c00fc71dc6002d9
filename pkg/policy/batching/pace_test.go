package batching

import "testing"

// machine takes seconds = base + row·rows + logits·withLogits.
type machine struct{ base, row, logits float64 }

func (m machine) layers(rows int) float64     { return m.base + m.row*float64(rows) }
func (m machine) head(withLogits int) float64 { return m.logits * float64(withLogits) }

// run takes a prompt through the machine; it returns the rows and the seconds
// of each microbatch.
func (m machine) run(p Policy, pace *Pace, it Item) (rows []int, seconds []float64) {
	for it.Prefill > 0 {
		n := p.Next([]Item{it}, 0, pace, nil)[0].Rows
		withLogits := max(0, n-(it.Prefill-it.Scored))
		pace.Observe(n, m.layers(n), withLogits, m.head(withLogits))
		rows, seconds = append(rows, n), append(seconds, m.layers(n)+m.head(withLogits))
		it.Prefill, it.Scored = it.Prefill-n, it.Scored-withLogits
	}
	return rows, seconds
}

func TestPaceBoundsTime(t *testing.T) {
	p := Policy{Microbatches: 1, MinRows: 8, MaxRows: 256, MaxSeconds: 0.25, MinPrefill: 4}
	for _, tc := range []struct {
		name   string
		m      machine
		scored int
		most   float64 // seconds of a microbatch after the first two
		least  float64 // rows of a microbatch after the first ten, on average
	}{
		{"fast", machine{base: 0.001, row: 0.0001}, 1, 0.25, 256},
		{"slow rows", machine{base: 0.002, row: 0.010}, 1, 0.27, 22},
		{"slower than the bound", machine{row: 0.2}, 1, 0.8, 4},
		{"large vocabulary", machine{base: 0.002, row: 0.0001, logits: 0.038}, 4000, 0.27, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, seconds := tc.m.run(p, &Pace{}, Item{Prefill: 4000, Scored: tc.scored})
			sum := 0.0
			for i, n := range rows {
				if i >= 2 && seconds[i] > tc.most {
					t.Errorf("microbatch %d of %d rows took %.3f s", i, n, seconds[i])
				}
				if i >= 10 && i < len(rows)-1 {
					sum += float64(n)
				}
			}
			if average := sum / float64(len(rows)-11); average < tc.least {
				t.Errorf("%.1f rows a microbatch, want %v: %v", average, tc.least, rows)
			}
		})
	}
}

// One microbatch that somebody's death made slow does not count for long.
func TestPaceForgets(t *testing.T) {
	p, pace := Policy{Microbatches: 1, MaxRows: 256, MaxSeconds: 0.25}, &Pace{}
	m := machine{base: 0.005, row: 0.0005}
	m.run(p, pace, Item{Prefill: 2000})
	pace.Observe(256, 4, 0, 0)
	rows, _ := m.run(p, pace, Item{Prefill: 4000})
	if len(rows) > 40 {
		t.Errorf("%d microbatches for 4000 rows: %v", len(rows), rows)
	}
}
