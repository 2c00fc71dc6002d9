package elastic

import (
	"fmt"
	"math"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/feedback"
)

// Cause is why a layer's plan changes.
type Cause string

// The causes.
const (
	byStatic   Cause = "static"
	byHost     Cause = "host"
	byRefusal  Cause = "refusal"
	byMemory   Cause = "memory"
	byMissing  Cause = "missing"
	byWake     Cause = "wake"
	toZero     Cause = "zero"
	byGain     Cause = "gain"
	byUndo     Cause = "undo"
	byInterval Cause = "interval"
	bySpread   Cause = "spread"
	bySurplus  Cause = "surplus"
	byRelief   Cause = "relief"
	byCooling  Cause = "cooled"
	byAge      Cause = "age"
	byPressure Cause = "pressure"
	byDivision Cause = "division"
	byForm     Cause = "form"
)

// texts say what the number of each cause is; in the order of reasons.
var texts = []struct {
	cause Cause
	text  string
}{
	{byStatic, "round robin"},
	{byHost, "%d functions were wanted on hosts that are gone"},
	{byRefusal, "%d functions were refused"},
	{byMemory, "%d replicas more than hosts hold now"},
	{byMissing, "%d experts given a host"},
	{byWake, "%d experts woken by rows"},
	{toZero, "%d experts without rows to zero"},
	{byGain, ""},
	{byUndo, ""},
	{byInterval, "an interval is over"},
	{bySpread, "no rows, and hosts with nothing"},
	{bySurplus, "%d replicas retired that were not needed"},
	{byRelief, "%d experts of throttling hosts given to others, too"},
	{byCooling, "%d that relieved them retired"},
	{byAge, "%d kept ones let go after their time"},
	{byPressure, "%d kept ones let go for others"},
	{byDivision, ""},
	{byForm, "functions formed anew"},
}

// Causes are all of them.
func Causes() []Cause {
	all := make([]Cause, len(texts))
	for i, t := range texts {
		all[i] = t.cause
	}
	return all
}

// causes are those of one layer.
type causes struct {
	n        map[Cause]int
	prospect prospect
	came     feedback.Outcome // of what is undone
	message  float64          // seconds of one, by which rows are divided
}

// prospect is what a change is to bring.
type prospect struct {
	before, after  outlook
	saved, horizon float64 // seconds
}

// String is the prospect as a plan's reason has it: rows and messages a second, and seconds.
func (p prospect) String() string {
	return fmt.Sprintf("the most loaded host from %.4g to %.4g rows a second, messages from %.4g to %.4g, saves %.3g s in %.4g s; %d loads take %.3g s",
		p.before.rows, p.after.rows, p.before.messages, p.after.messages, p.saved, p.horizon, p.after.loads, p.after.seconds)
}

func (c *causes) count(cause Cause, n int) {
	if n == 0 {
		return
	}
	if c.n == nil {
		c.n = map[Cause]int{}
	}
	c.n[cause] += n
}

// Verdict is what was decided on a layer.
type Verdict struct {
	Layer int
	// Causes are why its plan changes; none: it stays.
	Causes []Cause
	// Reason has the numbers.
	Reason string
	// Before and After are of the plan in force and of this one, under the loads
	// that were known.
	Before, After Balance
	// Warm, Kept and Cold are the replicas of all experts.
	Warm, Kept, Cold int
}

// Balance says how evenly a layer's rows are divided.
type Balance struct {
	// CV is the coefficient of variation of the rows of all replicas, Balancedness
	// their mean by their largest.
	CV, Balancedness float64
}

func (r *round) verdict(w *work, changed bool) Verdict {
	v := Verdict{Layer: w.number, Before: balance(w.old, w.loads), After: balance(w.next, w.loads)}
	for e := range w.next {
		v.Warm += w.next.count(e, warm)
		v.Kept += w.next.count(e, kept)
		v.Cold += w.next.count(e, cold)
	}
	if !changed {
		return v
	}
	if len(w.why.n) == 0 {
		w.why.count(byForm, 1)
	}
	var parts []string
	for _, t := range texts {
		if n := w.why.n[t.cause]; n > 0 {
			v.Causes = append(v.Causes, t.cause)
			parts = append(parts, w.why.part(t.cause, t.text, n))
		}
	}
	if w.loads != nil {
		parts = append(parts, fmt.Sprintf("CV from %.3g to %.3g", v.Before.CV, v.After.CV))
	}
	if list := r.changes(w); list != "" {
		parts = append(parts, list)
	}
	v.Reason = strings.Join(parts, "; ")
	return v
}

func (c *causes) part(cause Cause, text string, n int) string {
	switch {
	case cause == byGain:
		return c.prospect.String()
	case cause == byUndo:
		return fmt.Sprintf("%d experts as before a change that %v: expected to save %.3g %% of the layer's time, it saved %.3g (± %.2g, %.0f samples)",
			n, c.came.Verdict, 100*c.came.Expected, 100*c.came.Came, 100*c.came.Error, c.came.Samples)
	case cause == byDivision:
		return fmt.Sprintf("gates divide rows by other times of accesses, with %.3g s a message", c.message)
	case strings.Contains(text, "%"):
		return fmt.Sprintf(text, n)
	}
	return text
}

func balance(l layout, loads []float64) Balance {
	var sum, squares, most float64
	n := 0
	for e, load := range loads {
		of := l.count(e, warm)
		if of == 0 {
			continue
		}
		each := load / float64(of)
		n += of
		sum += load
		squares += each * load
		most = max(most, each)
	}
	if sum == 0 {
		return Balance{CV: 0, Balancedness: 1}
	}
	mean := sum / float64(n)
	return Balance{CV: math.Sqrt(max(0, squares/float64(n)-mean*mean)) / mean, Balancedness: mean / most}
}
