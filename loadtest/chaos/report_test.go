package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/check"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
)

// Hit is a fault that was done.
type Hit struct {
	schedule.Fault
	// Began is when, and Back when everything was whole again.
	Began, Back time.Duration
	// Skipped says that nobody was there who could be hit.
	Skipped bool
	// Stall is the longest pause of a stream that it is the likely cause of, First
	// the longest wait for a first chunk, and Reissues how many groups of rows were
	// sent again until the next fault.
	Stall, First time.Duration
	Reissues     float64
}

// Run is everything that a report is made of.
type Run struct {
	Title string
	Hits  []Hit
	Load  asking.Result
	// Left is what was still held at the end, and Problems what processes did by themselves.
	Left, Problems []string
	// Counted says that the services' counts of re-issues were read.
	Counted bool
}

// Failed reports whether anything was wrong.
func (r *Run) Failed() bool {
	return len(r.Load.Violations)+len(r.Left)+len(r.Problems) > 0
}

// Before is what of the run's schedule began before the first violation was seen; all of
// it where none was, or where it was seen before anything went wrong.
func (r *Run) Before(plan schedule.Schedule) schedule.Schedule {
	if len(r.Load.Violations) == 0 || len(r.Hits) == 0 {
		return plan
	}
	first := slices.MinFunc(r.Load.Violations, func(a, b check.Violation) int { return cmp.Compare(a.At, b.At) })
	if early := plan.Until(first.At - r.Hits[0].Began + r.Hits[0].At); len(early) > 0 {
		return early
	}
	return plan
}

// blame is how long before a stall's beginning its cause may have begun: rows
// and chunks that were on their way arrive after a fault, and what hangs is
// missed later.
const blame = 8 * time.Second

// Attribute gives each stall to the fault that began nearest to its beginning,
// among those that began before its end.
func (r *Run) Attribute() {
	for _, s := range r.Load.Stalls {
		hit := r.cause(s)
		switch {
		case hit == nil:
		case s.First:
			hit.First = max(hit.First, s.Length())
		default:
			hit.Stall = max(hit.Stall, s.Length())
		}
	}
}

func (r *Run) cause(s check.Stall) (cause *Hit) {
	nearest := blame
	for i := range r.Hits {
		h := &r.Hits[i]
		away := (s.From - h.Began).Abs()
		if !h.Skipped && h.Began < s.To && away < nearest {
			cause, nearest = h, away
		}
	}
	return cause
}

// Row is what the faults of a group cost.
type Row struct {
	Name  string  `json:"name"`
	Count int     `json:"count"`
	P50   float64 `json:"stall_p50_seconds"`
	P99   float64 `json:"stall_p99_seconds"`
	Max   float64 `json:"stall_max_seconds"`
	First float64 `json:"first_max_seconds"`
	// Reissues is nil where nobody read them.
	Reissues *float64 `json:"reissues"`
}

func (r Row) reissues() string {
	if r.Reissues == nil {
		return "not read"
	}
	return fmt.Sprintf("%.0f", *r.Reissues)
}

// ByKind and ByService group faults.
func ByKind(h Hit) string { return string(h.Kind) }

// ByService tells services apart, too.
func ByService(h Hit) string { return string(h.Kind) + " " + h.Target.Service }

// Rows are the groups in the order of the kinds, and of their names.
func (r *Run) Rows(by func(Hit) string) (out []Row) {
	stalls := map[string][]float64{}
	rows := map[string]*Row{}
	var names []string
	for _, h := range r.Hits {
		if h.Skipped {
			continue
		}
		name := by(h)
		if rows[name] == nil {
			rows[name] = &Row{Name: name}
			if r.Counted {
				rows[name].Reissues = new(float64)
			}
			names = append(names, name)
		}
		rows[name].Count++
		if r.Counted {
			*rows[name].Reissues += h.Reissues
		}
		rows[name].First = max(rows[name].First, h.First.Seconds())
		stalls[name] = append(stalls[name], h.Stall.Seconds())
	}
	slices.SortFunc(names, byKind)
	for _, name := range names {
		row := rows[name]
		row.P50, row.P99, row.Max = quantiles(stalls[name])
		out = append(out, *row)
	}
	return out
}

func byKind(a, b string) int {
	rank := func(name string) int {
		kind, _, _ := strings.Cut(name, " ")
		return slices.Index(schedule.Kinds, schedule.Kind(kind))
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

func quantiles(of []float64) (p50, p99, most float64) {
	slices.Sort(of)
	return quantile.Of(of, 0.5), quantile.Of(of, 0.99), quantile.Of(of, 1)
}

// Summary are the figures of a whole run.
type Summary struct {
	Title    string `json:"title"`
	Faults   int    `json:"faults"`
	Requests int    `json:"requests"`
	// Wrong counts violations by what is wrong.
	Wrong map[string]int `json:"wrong"`
	// The longest pause of each request, and of each fault.
	Requests50 float64       `json:"request_stall_p50_seconds"`
	Requests99 float64       `json:"request_stall_p99_seconds"`
	RequestMax float64       `json:"request_stall_max_seconds"`
	Faults50   float64       `json:"fault_stall_p50_seconds"`
	Faults99   float64       `json:"fault_stall_p99_seconds"`
	FaultMax   float64       `json:"fault_stall_max_seconds"`
	Kinds      []Row         `json:"kinds"`
	Services   []Row         `json:"services"`
	Load       asking.Result `json:"load"`
	// Longest are the longest stalls.
	Longest  []Longest `json:"longest"`
	Left     []string  `json:"left"`
	Problems []string  `json:"problems"`
}

// Summary adds a run up.
func (r *Run) Summary() Summary {
	s := Summary{
		Title: r.Title, Requests: len(r.Load.Spans), Wrong: map[string]int{}, Kinds: r.Rows(ByKind), Services: r.Rows(ByService),
		Load: r.Load, Left: r.Left, Problems: r.Problems, Longest: r.longest(),
	}
	for _, v := range r.Load.Violations {
		s.Wrong[v.What]++
	}
	var requests, faults []float64
	for _, span := range r.Load.Spans {
		requests = append(requests, span.Stall.Seconds())
	}
	for _, h := range r.Hits {
		if !h.Skipped {
			faults = append(faults, h.Stall.Seconds())
		}
	}
	s.Faults = len(faults)
	s.Requests50, s.Requests99, s.RequestMax = quantiles(requests)
	s.Faults50, s.Faults99, s.FaultMax = quantiles(faults)
	return s
}

// Longest is a stall with its likely cause.
type Longest struct {
	check.Stall
	Cause string `json:"cause"`
}

// most of the longest stalls that are told.
const most = 10

func (r *Run) longest() (out []Longest) {
	all := slices.SortedFunc(slices.Values(r.Load.Stalls), func(a, b check.Stall) int { return cmp.Compare(b.Length(), a.Length()) })
	for _, s := range all[:min(most, len(all))] {
		l := Longest{Stall: s}
		if hit := r.cause(s); hit != nil {
			l.Cause = fmt.Sprintf("%v at %v", hit.Fault, hit.Began.Round(time.Millisecond))
		}
		out = append(out, l)
	}
	return out
}

func (l Longest) String() string {
	what := "between two tokens"
	if l.First {
		what = "for the first token"
	}
	return fmt.Sprintf("%.2f s %s of %s from %v (%s)", l.Length().Seconds(), what, l.Request, l.From.Round(time.Millisecond), l.Cause)
}

// JSON is the summary as a file.
func (r *Run) JSON() ([]byte, error) { return json.MarshalIndent(r.Summary(), "", "  ") }

// Table is the summary as text.
func (r *Run) Table(by func(Hit) string) string {
	s := r.Summary()
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d faults, %d requests (%v), %d tokens\n", s.Title, s.Faults, s.Requests, s.Load.Ends, s.Load.Tokens)
	fmt.Fprintf(&b, "lost %d, duplicated %d, changed %d, wrong ends %d, ended twice %d, garbage %d; chunks again %d, overtaken %d; replays %d; %d answers read again at the end\n",
		s.Wrong[check.Lost], s.Wrong[check.Duplicated], s.Wrong[check.Changed], s.Wrong[check.WrongEnd], s.Wrong[check.EndedTwice], s.Wrong[check.Garbage],
		s.Load.Repeats, s.Load.Overtaken, s.Load.Replays, s.Load.Again)
	fmt.Fprintf(&b, "a request's longest stall: p50 %.2f s, p99 %.2f s, at most %.2f s; a fault's: p50 %.2f s, p99 %.2f s, at most %.2f s\n",
		s.Requests50, s.Requests99, s.RequestMax, s.Faults50, s.Faults99, s.FaultMax)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tcount\tstall p50 s\tp99 s\tmax s\tfirst max s\tre-issues")
	for _, row := range r.Rows(by) {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%s\n", row.Name, row.Count, row.P50, row.P99, row.Max, row.First, row.reissues())
	}
	_ = w.Flush() // into memory, which takes everything
	for _, l := range s.Longest {
		fmt.Fprintln(&b, "stall:", l)
	}
	b.WriteString(r.violations())
	for _, left := range s.Left {
		fmt.Fprintf(&b, "still held at the end: %s\n", left)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "a process: %s\n", p)
	}
	return b.String()
}
