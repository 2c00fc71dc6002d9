// Package chaos kills processes. It runs the services as processes of their
// own beside a real NATS server, sends the same seeded requests again and
// again while something goes wrong, and wants the same tokens every time.
//
//	SWITCHYARD_CHAOS=short go test -v ./loadtest/chaos   # one hop mode for hung replicas, two deaths of the server, no large answers
//	SWITCHYARD_CHAOS=1 go test -v ./loadtest/chaos       # the table below, and the control loop's parts killed
//	SWITCHYARD_CHAOS=long go test -v ./loadtest/chaos    # lone processes that are killed and started again, and Kafka away for a minute, too
//
// In the latter two, faults of all kinds come at seeded times as well: docs/chaos.md.
package chaos

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

func TestMain(m *testing.M) { fleet.Main(m) }

// pipeline is everything that a scenario needs.
type pipeline struct {
	*fleet.Fleet
	hops  string
	load  *load
	stats *stats
	want  []answer
	rows  []row
}

// row is a scenario's line in the table of results.
type row struct {
	scenario string
	open     int
	// first is the longest wait for a first chunk, stall the longest pause after one.
	first, stall time.Duration
	stalls       []time.Duration // each request's
	counters
	repeats int
	took    time.Duration
}

func TestTheSameTokensWhateverIsKilled(t *testing.T) {
	mode := wanted(t)
	y := startPipeline(t, fleet.Build(t), cmp.Or(os.Getenv("SWITCHYARD_HOPS"), "unacked"))
	defer func() { t.Log("\n" + y.table()) }()

	y.Scale(1, 1)
	y.alone()
	y.batch("batch", nil)
	if mode == "long" {
		y.killLone()
	}
	y.Scale(2, 2)
	y.batch("two-of-each", nil)
	y.killEach()
	y.killEarly()
	y.killServer("kill-nats", 0)
	if mode == "long" {
		y.killServer("kill-nats-for-5s", 5*time.Second)
	}
	y.drainEach()
	y.Scale(2, 4)
	y.batch("four-experts", nil)
	y.batch("four-experts-kill", func() { y.Kill("expert") })
}

// short is the mode of continuous integration.
const short = "short"

// wanted is what SWITCHYARD_CHAOS says, and skips the test without it.
func wanted(t *testing.T) string {
	t.Helper()
	mode := os.Getenv("SWITCHYARD_CHAOS")
	if mode == "" || testing.Short() {
		t.Skip("SWITCHYARD_CHAOS is not set, or -short is: this takes minutes; set it to 1, to short for fewer scenarios, or to long for more")
	}
	return mode
}

func startPipeline(t *testing.T, programs, hops string) *pipeline {
	t.Helper()
	return startFleet(t, fleet.Settings{Programs: programs, Flags: []string{"--hops", hops}}, hops)
}

func startFleet(t *testing.T, s fleet.Settings, hops string) *pipeline {
	t.Helper()
	y := &pipeline{Fleet: fleet.New(t, s), hops: hops}
	y.load, y.stats = newLoad(t, y.URL()), listenStats(t, connect(t, y.URL()))
	return y
}

// reference are the answers that all others must equal, whichever pipeline made
// them first.
var reference []answer

// alone makes them, one at a time, unless they are there.
func (y *pipeline) alone() {
	if y.want = reference; reference != nil {
		return
	}
	start := time.Now()
	y.want = y.load.alone("alone")
	y.load.raw.check(y.T, "alone", false)
	y.rows = append(y.rows, row{scenario: "alone", stall: longest(y.want, stallOf), took: time.Since(start), open: 1})
	if !y.T.Failed() {
		reference = y.want
	}
}

// batch runs a scenario: all requests at once, and trouble in the middle.
func (y *pipeline) batch(name string, trouble func()) row {
	y.T.Helper()
	return y.scenario(name, false, trouble)
}

func (y *pipeline) scenario(name string, early bool, trouble func()) row {
	y.T.Helper()
	if y.T.Failed() {
		y.T.FailNow() // what comes after the first failure would only hide it
	}
	if trouble == nil {
		trouble = func() {}
	}
	before, repeats, start := y.stats.total(), y.load.raw.repeated(), time.Now()
	got, open := y.load.batch(name, early, trouble)
	r := row{scenario: name, open: open, first: longest(got, firstOf), stall: longest(got, stallOf), took: time.Since(start)}
	y.load.raw.check(y.T, name, strings.Contains(name, "nats"))
	for _, a := range got {
		r.stalls = append(r.stalls, max(a.first, a.stall))
	}
	r.repeats, r.counters = y.load.raw.repeated()-repeats, y.stats.since(before)
	y.rows = append(y.rows, r)
	y.compare(name, got)
	y.CheckAlive()
	return r
}

func (y *pipeline) compare(name string, got []answer) {
	y.T.Helper()
	for i := range got {
		y.compareOne(name, i, got[i])
	}
}

func (y *pipeline) compareOne(name string, i int, got answer) {
	y.T.Helper()
	if want := y.want[i]; !slices.Equal(got.ids, want.ids) || got.text != want.text {
		y.T.Errorf("%s, request %d: %v\n%q\nalone it was %v\n%q", name, i, got.ids, got.text, want.ids, want.text)
	}
}

func longest(all []answer, of func(answer) time.Duration) (d time.Duration) {
	for _, a := range all {
		d = max(d, of(a))
	}
	return d
}

func firstOf(a answer) time.Duration { return a.first }
func stallOf(a answer) time.Duration { return a.stall }

// killEach kills one of two processes of each kind.
func (y *pipeline) killEach() {
	for _, kind := range fleet.Kinds {
		y.untilMet(kind, "kill-"+kind, func() { y.Kill(kind) })
	}
}

// killLone kills the only process of each kind, and starts it again.
func (y *pipeline) killLone() {
	for _, kind := range fleet.Kinds {
		y.untilMet(kind, "kill-lone-"+kind, func() {
			y.Kill(kind)
			y.Add(kind)
		})
	}
}

// tries at meeting work in hand: a gate is often idle for the moment, and all
// sequences may be another replica's.
const tries = 4

// untilMet repeats a scenario until its kill has met work in hand, which was
// then issued or delivered again.
func (y *pipeline) untilMet(kind, name string, kill func()) {
	y.T.Helper()
	count, experts := y.Count("gate"), y.Count("expert")
	for try := range tries {
		scenario := name
		if try > 0 {
			scenario = fmt.Sprintf("%s-%d", name, try+1)
		}
		r := y.batch(scenario, kill)
		y.Scale(count, experts)
		if r.open < half {
			y.T.Errorf("%s: only %d streams were open", r.scenario, r.open)
		}
		if r.again(kind) > 0 {
			return
		}
	}
	y.T.Errorf("%s: nothing was issued or delivered again in %d tries", name, tries)
}

// again counts what the end of one of a kind makes others do again.
func (r row) again(kind string) float64 {
	switch kind {
	case "attention":
		return r.redeliveries
	case "tokenizer":
		return r.redeliveries + r.takeovers
	}
	return r.reissues
}

// killEarly kills who takes requests in, while they come in.
func (y *pipeline) killEarly() {
	for _, kind := range []string{"tokenizer", "attention"} {
		y.scenario("kill-early-"+kind, true, func() { y.Kill(kind) })
		y.Scale(2, 2)
	}
}

// killServer kills the NATS server and starts it again with the same store.
func (y *pipeline) killServer(name string, pause time.Duration) {
	y.batch(name, func() {
		y.Servers[0].Kill()
		time.Sleep(pause)
		y.Servers[0].Start()
	})
}

// drainEach ends one of two processes of each kind by SIGTERM.
func (y *pipeline) drainEach() {
	for _, kind := range fleet.Kinds {
		y.batch("drain-"+kind, func() {
			p := y.First(kind)
			p.Drain(y.T)
			y.Forget(kind, p)
		})
		y.Scale(2, 2)
	}
}

func (y *pipeline) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\topen\tstall s\tre-issues\tredeliveries\ttakeovers\trepeats\ttook s")
	for _, r := range y.rows {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.0f\t%.0f\t%.0f\t%d\t%.1f\n",
			r.scenario, r.open, r.stall.Seconds(), r.reissues, r.redeliveries, r.takeovers, r.repeats, r.took.Seconds())
	}
	w.Flush()
	return b.String()
}
