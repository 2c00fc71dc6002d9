package bench

import "fmt"

// String is all readings for people.
func (t *Transfers) String() string {
	text := fmt.Sprintf("message %.0f µs, %.1f for each doubling of a buffer, %.0f where it is read in pieces, %.0f MB/s; store %.0f µs an access, %.1f for each doubling, %.0f MB/s; a pipeline %.0f µs; a row has %d bytes\n",
		1e6*t.Message, 1e6*t.MessageGrow, 1e6*t.MessageWait, t.MessageBytes/1e6, 1e6*t.Access, 1e6*t.Grow, t.StoreBytes/1e6, 1e6*t.Pipeline, t.RowBytes)
	p := &t.Printed
	text += fmt.Sprintf("as printed: message %.0f µs, %.0f MB/s; store %.0f µs an access, %.0f MB/s; a pipeline %.0f µs\n", 1e6*p.Message, p.MessageBytes/1e6, 1e6*p.Access, p.StoreBytes/1e6, 1e6*p.Pipeline)
	text += fmt.Sprintf("by themselves: store %.0f µs an access (%.0f to put, %.0f to get), %.0f MB/s; message %.0f µs, %.0f MB/s\n",
		1e6*t.Itself.Access, 1e6*t.Put, 1e6*t.Get, t.Itself.StoreBytes/1e6, 1e6*t.Itself.Message, t.Itself.MessageBytes/1e6)
	for _, r := range t.Readings {
		text += fmt.Sprintf("%6d rows, %.2f ms to compute%s:", r.Rows, 1e3*r.Compute, map[bool]string{true: " (constants are of these)"}[r.Fits])
		for _, m := range r.Modes {
			text += fmt.Sprintf("  %s %.3f ms on the host (%.3f of them compute; formula %+.1f %%%s, as printed %+.1f %%%s; two runs %.1f %% apart), %.3f in all;",
				m.Mode, 1e3*m.Seconds, 1e3*m.Compute, 100*m.Model.Error, after(": ", m.Model.Verdict), 100*m.Line.Error, after(": ", m.Line.Verdict), 100*m.Apart, 1e3*m.Latency)
		}
		text += fmt.Sprintf("  best of %d minibatches, %.1f by the formula\n", r.Best, r.Formula)
	}
	return text + t.verdicts() + fmt.Sprintf("quicker in all: indirect than direct %s, pipelined than direct %s, pipelined than indirect %s; messages take %d rows\n",
		fromRows(t.IndirectFrom), fromRows(t.PipelinedFrom), fromRows(t.PipelinedFirst), t.DirectUpTo)
}

// verdicts counts them.
func (t *Transfers) verdicts() (text string) {
	for _, f := range []struct {
		name string
		of   func(*Timed) Said
	}{
		{"with a server's reads", func(m *Timed) Said { return m.Model }}, {"as printed", func(m *Timed) Said { return m.Line }},
	} {
		n := map[string]int{}
		for i := range t.Readings {
			for j := range t.Readings[i].Modes {
				n[f.of(&t.Readings[i].Modes[j]).Verdict]++
			}
		}
		text += fmt.Sprintf("formulas %s: %d %s, %d %s of the same transfer, %d %s both; %d are of their own constants\n", f.name, n[near], near, n[likeRuns], likeRuns, n[beyond], beyond, n[""])
	}
	return text
}

func after(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func fromRows(n int) string {
	if n == 0 {
		return "nowhere"
	}
	return fmt.Sprintf("from %d rows on", n)
}
