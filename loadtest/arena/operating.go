package arena

import (
	"fmt"
	"io"
	"strings"

	"github.com/switchyard/switchyard/internal/quantile"
)

// Operating is what policies made of requests at operating points.
type Operating struct {
	Trace  string `json:"trace"`
	Points Points `json:"points"`
	Hosts  int    `json:"hosts"`
	Seed   uint64 `json:"seed"`
	Seeds  int    `json:"seeds"`
	// Capacities are static's, in requests a second.
	Capacities map[string]float64 `json:"capacities"`
	Lines      []Served           `json:"lines"`
	Changes    []Change           `json:"changes"`
	Verdicts   []Ruling           `json:"verdicts"`
}

// served is a figure of a policy that is compared; more is worse, but for the share of good requests.
type served struct {
	what string
	of   func(*Served) float64
}

var (
	layerMean = served{"layer mean", func(l *Served) float64 { return l.Mean }}
	layerP99  = served{"layer p99", func(l *Served) float64 { return l.P99 }}
	ttftMean  = served{"TTFT mean", func(l *Served) float64 { return l.TTFTMean }}
	ttftP99   = served{"TTFT p99", func(l *Served) float64 { return l.TTFTP99 }}
	tpotMean  = served{"TPOT mean", func(l *Served) float64 { return l.TPOTMean }}
	tpotP99   = served{"TPOT p99", func(l *Served) float64 { return l.TPOTP99 }}
	goodShare = served{"good share", func(l *Served) float64 { return l.Good }}
	memory    = served{"memory", func(l *Served) float64 { return l.Average }}
)

// Change is how a policy differs from another at a point, over seeds, paired by them.
type Change struct {
	setting
	Policy  string  `json:"policy"`
	Against string  `json:"against"`
	What    string  `json:"what"`
	Change  float64 `json:"change"` // as a part of the other's; of a share, the difference
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

func (c Change) String() string {
	idle := ""
	if c.Idle {
		idle = ", pauses"
	}
	return fmt.Sprintf("%+.1f %% (95 %%: %+.1f to %+.1f) in %s against %s, %s, %s routing, %v of capacity%s",
		100*c.Change, 100*c.Low, 100*c.High, c.What, c.Against, c.Shape, c.Routing, c.Point, idle)
}

// change compares two policies at a point.
func (r *Operating) change(at setting, policy, against string, f served) (c Change, ok bool) {
	ours, theirs := r.at(at, policy), r.at(at, against)
	if len(ours) < 2 || len(ours) != len(theirs) {
		return c, false
	}
	changes := make([]float64, len(ours))
	for i := range ours {
		a, b := f.of(ours[i]), f.of(theirs[i])
		switch {
		case f.what == goodShare.what:
			changes[i] = a - b
		case b > 0:
			changes[i] = a/b - 1
		}
	}
	mean, half := quantile.Interval95(changes)
	return Change{at, policy, against, f.what, mean, mean - half, mean + half}, true
}

// at are a policy's lines at a point, in the order of seeds.
func (r *Operating) at(at setting, policy string) (lines []*Served) {
	for i := range r.Lines {
		if l := &r.Lines[i]; l.setting == at && l.Policy == policy {
			lines = append(lines, l)
		}
	}
	return lines
}

// settings are all that policies were compared on, in the order of lines.
func (r *Operating) settings() (all []setting) {
	known := map[setting]bool{}
	for i := range r.Lines {
		if at := r.Lines[i].setting; !known[at] {
			known[at], all = true, append(all, at)
		}
	}
	return all
}

// policies are those that ran.
func (r *Operating) policies() (names []string) {
	known := map[string]bool{}
	for i := range r.Lines {
		if name := r.Lines[i].Policy; !known[name] {
			known[name], names = true, append(names, name)
		}
	}
	return names
}

// Ruling is what became of a claim over all that it is of.
type Ruling struct {
	Claim string `json:"claim"`
	// Reached, Missed and Open count comparisons: the interval lies within what is claimed,
	// beyond it, or across.
	Reached int `json:"reached"`
	Missed  int `json:"missed"`
	Open    int `json:"open"`
	// Worst is the comparison that is farthest from the claim.
	Worst   string  `json:"worst"`
	Verdict Verdict `json:"verdict"`
	worst   float64
}

func (r Ruling) String() string {
	return fmt.Sprintf("%s: %s; %d within, %d open, %d beyond; worst %s\n", r.Claim, r.Verdict, r.Reached, r.Open, r.Missed, r.Worst)
}

// rule takes a comparison in whose change may be at most so much.
func (r *Ruling) rule(c Change, most float64) {
	low, high, at := c.Low, c.High, c.Change
	if c.What == goodShare.what { // more is better
		low, high, at = -c.High, -c.Low, -c.Change
	}
	switch {
	case high <= most:
		r.Reached++
	case low > most:
		r.Missed++
	default:
		r.Open++
	}
	if r.Worst == "" || at-most > r.worst {
		r.Worst, r.worst = c.String(), at-most
	}
	switch {
	case r.Missed > 0:
		r.Verdict = Missed
	case r.Open > 0:
		r.Verdict = Open
	default:
		r.Verdict = Reached
	}
}

// claimed is a claim: by how much our policy may differ from another where it holds.
type claimed struct {
	text    string
	figures []served
	against func(r *Operating, at setting, f served) string
	where   func(r *Operating, at setting) bool
	most    float64
}

func over(name string) func(*Operating, setting, served) string {
	return func(*Operating, setting, served) string { return name }
}

func busy(_ *Operating, at setting) bool { return !at.Idle }

func point(of float64) func(*Operating, setting) bool {
	return func(_ *Operating, at setting) bool { return !at.Idle && at.Point == of }
}

// claims are those of our policy at operating points.
var claims = []claimed{
	{"never more than 1 % slower than static in mean, p99 or TPOT", []served{layerMean, layerP99, tpotMean, tpotP99}, over("static"),
		func(*Operating, setting) bool { return true }, 0.01},
	{"within 5 % of the best policy that keeps the bound of memory", []served{layerMean, ttftMean, tpotMean}, (*Operating).bestWithin, busy, 0.05},
	{"within 5 % of the best policy, whatever its memory", []served{layerMean, ttftMean, tpotMean}, (*Operating).best, busy, 0.05},
	{"at 0.9 of capacity better than eplb-full in p99, TTFT and goodput", []served{layerP99, ttftMean, ttftP99, goodShare}, over("eplb-full"), point(0.9), 0},
	{"at 0.9 of capacity no more memory than eplb-full", []served{memory}, over("eplb-full"), point(0.9), 0},
	{"at 0.3 of capacity no more than 1.1 times the memory of static", []served{memory}, over("static"), point(0.3), 0.1},
	{"with pauses less memory than static", []served{memory}, over("static"), func(_ *Operating, at setting) bool { return at.Idle }, 0},
}

// conclude compares, and rules on each claim.
func (r *Operating) conclude() {
	for _, at := range r.settings() {
		for _, p := range r.policies() {
			for _, a := range against {
				if p != a {
					r.Changes = append(r.Changes, r.changes(at, p, a)...)
				}
			}
		}
	}
	for _, c := range claims {
		r.Verdicts = append(r.Verdicts, r.ruling(c))
	}
}

// changes are all figures of a policy beside another's.
func (r *Operating) changes(at setting, policy, against string) (all []Change) {
	for _, f := range []served{layerMean, layerP99, ttftMean, ttftP99, tpotMean, tpotP99, goodShare, memory} {
		if c, ok := r.change(at, policy, against, f); ok {
			all = append(all, c)
		}
	}
	return all
}

// ruling is what becomes of a claim; one that nothing was compared for is open.
func (r *Operating) ruling(c claimed) Ruling {
	y := Ruling{Claim: ours + ": " + c.text, Verdict: Open}
	for _, at := range r.settings() {
		if !c.where(r, at) {
			continue
		}
		for _, f := range c.figures {
			if change, ok := r.change(at, ours, c.against(r, at, f), f); ok {
				y.rule(change, c.most)
			}
		}
	}
	return y
}

// Write writes points.json, points.csv, changes.csv and points.md into a folder, which is made.
func (r *Operating) Write(folder string) error {
	return writeFiles(folder, []file{
		{"points.json", asJSON(r)},
		{"points.csv", asCSV(r.Lines)}, {"changes.csv", asCSV(r.Changes)}, {"points.md", r.writeText},
	})
}

// writeText writes what is in the documents: verdicts, and means over seeds.
func (r *Operating) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d seeds. SLO: %v to the first token, %v each further one.\n\n", r.Trace, r.Seeds, r.Points.SLO.TTFT, r.Points.SLO.TPOT)
	b.WriteString("| claim | verdict | reached / open / missed | worst |\n|---|---|---|---|\n")
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "| %s | %s | %d / %d / %d | %s |\n", v.Claim, v.Verdict, v.Reached, v.Open, v.Missed, v.Worst)
	}
	b.WriteString("\n| shape, routing, load | policy | layer ms, mean, p99 | TTFT s, mean, p99 | TPOT ms, mean, p99 | good % | behind s | unfinished % | GB, mean, peak |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, at := range r.settings() {
		for _, p := range r.policies() {
			r.textLine(&b, at, p)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Operating) textLine(b *strings.Builder, at setting, policy string) {
	lines := r.at(at, policy)
	mean := func(of func(*Served) float64) (sum float64) {
		for _, l := range lines {
			sum += of(l) / float64(len(lines))
		}
		return sum
	}
	idle := ""
	if at.Idle {
		idle = " with pauses"
	}
	fmt.Fprintf(b, "| %s, %s, %v%s | `%s` | %.2f, %.2f | %.2f, %.2f | %.0f, %.0f | %.1f | %.1f | %.1f | %.0f, %.0f |\n", at.Shape, at.Routing, at.Point, idle, policy,
		mean(layerMean.of), mean(layerP99.of), mean(ttftMean.of)/1e3, mean(ttftP99.of)/1e3, mean(tpotMean.of), mean(tpotP99.of), 100*mean(goodShare.of),
		mean(func(l *Served) float64 { return l.Behind }), 100*mean(func(l *Served) float64 { return float64(l.Unfinished) / float64(l.Requests) }),
		mean(memory.of), mean(func(l *Served) float64 { return l.Peak }))
}
