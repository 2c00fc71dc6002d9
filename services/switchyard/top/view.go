package top

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// View draws a snapshot for people. With the one before it shows rates, else
// totals since each replica's start.
func (s *Snapshot) View(before *Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "model %s   %s   requests active %.0f   total %.0f   tokens %.0f%s\n",
		s.Model, s.Time.Format("15:04:05"), s.sum(statActive), s.sum(statRequests), s.sum(statTokens), s.tokenRate(before))
	fmt.Fprintf(&b, "errors %.0f   first token %s   whole answer %s   KV pages %s\n", s.sum(statFailed)+s.sum(statRefused),
		s.mean(before, statFirstSeconds, statFirstTokens), s.mean(before, statSeconds, statFinished), share(s.sum(statPagesUsed), s.sum(statPages)))
	if s.RefusedSamples > 0 {
		fmt.Fprintf(&b, "messages about loads that no host of this model sent: %d\n", s.RefusedSamples)
	}
	b.WriteString(s.paced(before) + s.gpus() + "\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s.drawMembers(w)
	s.drawQueues(w)
	s.drawLayers(w, before)
	s.drawReplicas(w)
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// sum adds up one stat over all members.
func (s *Snapshot) sum(stat string) (total float64) {
	for _, m := range s.Members {
		total += m.Stats[stat]
	}
	return total
}

func (s *Snapshot) tokenRate(before *Snapshot) string {
	seconds := s.since(before)
	if seconds <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%.1f/s)", max(0, s.sum(statTokens)-before.sum(statTokens))/seconds)
}

// mean is the mean of a sum of seconds over its count: of what ended since the
// snapshot before or, without one or when nothing did, since each replica's start.
func (s *Snapshot) mean(before *Snapshot, seconds, count string) string {
	sum, n := s.sum(seconds), s.sum(count)
	if before != nil && n > before.sum(count) {
		sum, n = sum-before.sum(seconds), n-before.sum(count)
	}
	switch {
	case n <= 0:
		return "-"
	case sum/n < 0.001:
		return fmt.Sprintf("%.0f µs", 1e6*sum/n)
	case sum/n < 1:
		return fmt.Sprintf("%.0f ms", 1000*sum/n)
	}
	return fmt.Sprintf("%.1f s", sum/n)
}

// share shows how much of something is used.
func share(used, of float64) string {
	if of <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f of %.0f (%.0f%%)", used, of, 100*used/of)
}

// since is the seconds from one snapshot to the next; 0 without one.
func (s *Snapshot) since(before *Snapshot) float64 {
	if before == nil {
		return 0
	}
	return s.Time.Sub(before.Time).Seconds()
}

func (s *Snapshot) drawMembers(w *tabwriter.Writer) {
	fmt.Fprintln(w, "SERVICE\tREPLICA\tSTATE\tREQUESTS\tTOKENS\tROWS\tERRORS\tKV PAGES\tDEVICE")
	for _, m := range s.Members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%s\n",
			m.Service, m.ID, m.state(), m.Stats[statRequests], m.Stats[statTokens], m.Stats[statRows],
			m.Stats[statFailed]+m.Stats[statRefused], share(m.Stats[statPagesUsed], m.Stats[statPages]), m.Device)
	}
	if len(s.Members) == 0 {
		fmt.Fprintln(w, "(no replica is alive)")
	}
	fmt.Fprintln(w)
}

func (m *Member) state() string {
	switch {
	case m.Draining:
		return "draining"
	case m.Ready:
		return "ready"
	}
	return "not ready"
}

// drawQueues shows a line a stage; the layers of EXPERT are one line.
func (s *Snapshot) drawQueues(w *tabwriter.Writer) {
	fmt.Fprintln(w, "QUEUE\tWAITING\tBYTES\tDEEPEST LAYER")
	for _, stage := range stages {
		var total Queue
		deepest, name, found := uint64(0), "", false
		for _, q := range s.Queues {
			kind, _, _ := strings.Cut(q.Stage, "-")
			if kind != stage {
				continue
			}
			found = true
			total.Messages += q.Messages
			total.Bytes += q.Bytes
			if stage == "EXPERT" && q.Messages > deepest {
				deepest, name = q.Messages, fmt.Sprintf("%s: %d", q.Stage, q.Messages)
			}
		}
		if found {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", stage, total.Messages, total.Bytes, name)
		}
	}
	fmt.Fprintln(w)
}

// drawLayers shows how even each layer's load is, and a bar an expert.
func (s *Snapshot) drawLayers(w *tabwriter.Writer, before *Snapshot) {
	if len(s.Layers) == 0 {
		return
	}
	unit := "ROWS"
	if s.since(before) > 0 {
		unit = "ROWS/S"
	}
	fmt.Fprintf(w, "LAYER\t%s\tHOTTEST\tMEAN/MAX\tEXPERTS\n", unit)
	for _, l := range s.Layers {
		rows := l.rate(before, s.since(before))
		total, hottest := 0.0, 0
		for i, n := range rows {
			total += n
			if n > rows[hottest] {
				hottest = i
			}
		}
		even := 1.0
		if rows[hottest] > 0 {
			even = total / float64(len(rows)) / rows[hottest]
		}
		fmt.Fprintf(w, "%d\t%.0f\t%d: %.0f\t%.2f\t%s\n", l.Layer, total, hottest, rows[hottest], even, bars(rows))
	}
}

// rate is the rows a second since the snapshot before, or the totals without one.
// What a host had computed before it was first heard is in no rate.
func (l Layer) rate(before *Snapshot, seconds float64) []float64 {
	if seconds <= 0 {
		return floats(l.Rows)
	}
	rows := floats(l.heard)
	i := slices.IndexFunc(before.Layers, func(b Layer) bool { return b.Layer == l.Layer })
	for expert := range rows {
		if i >= 0 && expert < len(before.Layers[i].heard) {
			rows[expert] = max(0, rows[expert]-float64(before.Layers[i].heard[expert])) // counted anew
		}
		rows[expert] /= seconds
	}
	return rows
}

func floats(counts []uint64) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n)
	}
	return out
}

var barRunes = []rune("▁▂▃▄▅▆▇█")

// bars draws a rune an expert, scaled to the largest; a blank for none.
func bars(rows []float64) string {
	top := slices.Max(rows)
	out := make([]rune, len(rows))
	for i, n := range rows {
		out[i] = '·'
		if n > 0 {
			out[i] = barRunes[int(n/top*float64(len(barRunes)-1))]
		}
	}
	return string(out)
}
