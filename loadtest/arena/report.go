package arena

import (
	"fmt"

	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
)

// Report is all that was compared.
type Report struct {
	Trace    string    `json:"trace"`
	Requests int       `json:"requests"`
	Slice    float64   `json:"slice_s"`
	Short    float64   `json:"short_slice_s"`
	Seed     uint64    `json:"seed"`
	Device   string    `json:"device"`
	Hosts    int       `json:"hosts"`
	Routing  string    `json:"routing"`
	Accuracy []float64 `json:"accuracy_by_distance"`
	Assumed  []string  `json:"assumed"`
	Methods  []Method  `json:"methods,omitempty"`
	Claims   []Claim   `json:"claims"`
	// Intervals are over seeds.
	Intervals []Interval `json:"intervals,omitempty"`
	// Swings are how far changes move with the constants that are assumed.
	Swings  []Swing  `json:"swings,omitempty"`
	Reasons []string `json:"reasons"`
	Lines   []Line   `json:"lines"`
	// Seconds are those that this machine took.
	Seconds float64 `json:"seconds"`

	suite Suite
}

// Title is the suite's.
func (r *Report) Title() string { return r.suite.Title }

func newReport(s Settings) *Report {
	cut := trace.Peak(s.Trace, s.Slice)
	r := &Report{
		suite: s.Suite,
		Trace: s.TraceName, Requests: len(cut), Slice: s.Slice.Seconds(), Short: min(s.Short, s.Slice).Seconds(), Seed: s.Seed,
		Device: s.BackEnd.Device(), Hosts: s.Hosts, Routing: s.Fitted, Accuracy: s.Accuracy, Methods: s.Methods,
	}
	r.Assumed = []string{
		takes(s.Time),
		"A layer lasts until its busiest host is done: its replicas share its processor (MoEless, §4.3), so their accesses add up; then 2·max over hosts of β·rows. The paper (§3.3) prints a maximum over replicas; layer_ms_mean_by_replica is that.",
		"All constants are those of the paced profiles, where each has its source or the word assumed.",
		fmt.Sprintf("Requests that arrive within a second are one batch (§6.1): its prompts are one iteration, and then each request has one row in each of %d iterations a second until its answer ends; batches share these. Iterations are the same for all policies; where a cluster cannot follow the trace, they begin late.", s.PerSecond),
		"An expert's rows are split evenly over its replicas that are loaded, for moeless+, moeless+lean, eplb+ and eplb-full+ so that the busiest host is done soonest (pkg/policy/divide). Until a new replica is, those before it serve; an expert on no host waits for a cold start.",
		"The layers of a model share a host's memory evenly. No policy holds more than fits.",
		"static: one replica of each expert, round robin. eplb: as many redundant experts as experts, which is what the paper's costs of EPLB imply; decided on the trace's first ten minutes before these are served, then every ten simulated minutes on those before. eplb-full: the same with all memory that there is; eplb+ and eplb-full+ divide rows as moeless+ does.",
		"oracle: every host has the same number of rows, against the gate's choice; it holds one replica of each expert.",
		"reactive: MoEless' placement of replicas in proportion to the loads of the 15 s before.",
		"moeless: algorithms 1 and 2 in every iteration, on predictions that give the share accuracy_by_distance of routed rows to the right expert and the others to experts of a fixed, skewed choice of each layer. The first layers are predicted from the iteration before.",
		"moeless+: the same predictions, corrected by what came of those before; experts are copied where that ends a layer sooner (pkg/policy/copies). It is not the paper's. moeless+lean is the same; how much a copy has to save, and for how long it stays without rows, follow how much of the time requests wait (pkg/policy/copies).",
		"cost_gb_s bills as the paper does: the replicas of a layer while it runs, and all memory all the time of static, eplb and oracle. cost_resident_gb_s is all memory for as long as it is held, keep-alive and loading included, of all policies alike. Both are of experts only: all else is the same for all.",
	}
	return r
}

// takes says what an access takes.
func takes(t profiles.Time) string {
	if t == profiles.Printed {
		return "An access takes α·rows, the form that MoEless prints (§3.3), in which reading an expert's weights costs each row the same."
	}
	return "An access of an expert takes its overhead and the longer of reading its weights once and computing its rows (a roofline, fitted to layers measured on an H200 with an error of 14 %); each host's call has an overhead beside."
}

// conclude compares, and says why where a claim is missed.
func (r *Report) conclude() {
	r.Claims = r.conclusions()
	r.Reasons = append(r.Reasons, r.tally())
	r.Intervals, r.Swings = r.intervals(), r.swings()
	for _, shape := range r.shapes() {
		r.Reasons = append(r.Reasons, r.reason(shape))
		if text := r.even(shape); text != "" {
			r.Reasons = append(r.Reasons, text)
		}
	}
}

func (r *Report) shapes() (names []string) {
	for _, l := range r.Lines {
		if len(names) == 0 || names[len(names)-1] != l.Shape {
			names = append(names, l.Shape)
		}
	}
	return names
}

// reason tells a shape's result in figures.
func (r *Report) reason(shape string) string {
	of := func(policy string) *Line { return find(r.Lines, partMain, shape, routingFitted, policy) }
	static, eplb, oracle, printed, plus, lean := of("static"), of("eplb"), of("oracle"), of("moeless"), of("moeless+"), of("moeless+lean")
	if static == nil || eplb == nil || oracle == nil || printed == nil || plus == nil || lean == nil {
		return shape + ": not all policies have run."
	}
	return fmt.Sprintf("%s: nothing can be faster than the oracle, %.2f ms, which is %s of static and %s of EPLB. "+
		"MoEless' algorithms as printed take %.2f ms, %s of static: they even out the loads of %.1f replicas, and leave the hosts uneven, because a replica goes where its expert is warm. "+
		"By the printed formula, which does not count that, they are at %s of static. "+
		"moeless+ takes %.2f ms, %s of static, %s of EPLB and %s of the oracle, with %.1f replicas. "+
		"Held memory is another matter: replicas that are kept alive cost moeless %s and moeless+ %s of static's GB·s; the paper's bill, by which they cost %s and %s, counts them only while their layer runs. moeless+lean, which copies little while no request waits, holds %s of static's GB·s, and %s of EPLB's, at %s of static's layer time.",
		shape, oracle.Mean, percent(oracle.Mean, static.Mean), percent(oracle.Mean, eplb.Mean),
		printed.Mean, percent(printed.Mean, static.Mean), printed.Replicas, percent(printed.ByReplica, static.ByReplica),
		plus.Mean, percent(plus.Mean, static.Mean), percent(plus.Mean, eplb.Mean), percent(plus.Mean, oracle.Mean), plus.Replicas,
		percent(printed.Resident, static.Resident), percent(plus.Resident, static.Resident), percent(printed.Cost, static.Cost), percent(plus.Cost, static.Cost),
		percent(lean.Resident, static.Resident), percent(lean.Resident, eplb.Resident), percent(lean.Mean, static.Mean))
}

// even tells what there is to gain where experts have equal loads.
func (r *Report) even(shape string) string {
	static := find(r.Lines, partRouting, shape, routingEven, "static")
	if static == nil {
		return ""
	}
	text := shape + " with even routing, where nothing can be gained: layer time against static"
	for _, l := range r.Lines {
		if l.Part == partRouting && l.Shape == shape && l.Routing == routingEven && l.Policy != "static" {
			text += fmt.Sprintf(", %s %s", l.Policy, percent(l.Mean, static.Mean))
		}
	}
	return text + "."
}

// MainLines are the lines of the whole slice.
func (r *Report) MainLines() (lines []Line) {
	for _, l := range r.Lines {
		if l.Part == partMain {
			lines = append(lines, l)
		}
	}
	return lines
}
