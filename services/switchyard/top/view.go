package top

import (
	"fmt"
	"slices"
	"strings"
)

// View is a snapshot as text with everything in it, however long and wide that is. With
// the one before it shows the experts' rates, else totals since their hosts' starts.
func (s *Snapshot) View(before *Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s\n", s.title(), gap, s.Time.Format("15:04:05"))
	for _, line := range s.reasons(0) {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintln(&b, strings.Join(s.figures(), gap))
	for _, g := range s.groups(before) {
		fmt.Fprintf(&b, "\n%s%s%s\n", g.title, gap, g.brief)
		if len(g.table.rows) == 0 {
			continue
		}
		lines, _ := g.table.lines(0, 0)
		fmt.Fprintln(&b, strings.Join(lines, "\n"))
	}
	return b.String()
}

// since is the seconds from one snapshot to the next; 0 without one.
func (s *Snapshot) since(before *Snapshot) float64 {
	if before == nil {
		return 0
	}
	return s.Time.Sub(before.Time).Seconds()
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
