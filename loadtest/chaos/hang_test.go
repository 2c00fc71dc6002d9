package chaos

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// What a hung replica may cost on a busy machine: a pause when it hangs, and
// nothing from then on, beside twice what there is on this machine without one. The
// figures in the table are what matters.
const (
	costOnce  = 2500 * time.Millisecond
	costAfter = 2 * time.Second
	// settled is when everybody should know of a replica that hangs, or that is back.
	settled = 2 * time.Second
)

// hangRow is what a hung replica of a kind cost.
type hangRow struct {
	hops, kind string
	// during has the requests in the middle of which it hung, still those that
	// began when it had hung for a while, woken those in which it woke up.
	during, still, woken row
}

// One of two processes of each kind stops where it is, with its connections
// open and with what it has asked the server for.
func TestHungReplicas(t *testing.T) {
	modes := []string{"unacked", "acked", "core"}
	if wanted(t) == short {
		modes = modes[:1]
	}
	programs := fleet.Build(t)
	var rows []hangRow
	defer func() { t.Log("\n" + hangTable(rows)) }()
	for _, hops := range modes {
		t.Run(hops, func(t *testing.T) {
			y := startPipeline(t, programs, hops)
			y.Scale(2, 2)
			y.alone()
			healthy, of := y.batch("healthy", nil), len(rows)
			for _, kind := range fleet.Kinds {
				rows = append(rows, y.hang(kind))
			}
			beyond := t.Errorf
			if wanted(t) == short { // beside other work: the tokens count, and pauses are told
				beyond = t.Logf
			}
			for _, r := range rows[of:] {
				r.check(2*max(healthy.first, healthy.stall), beyond)
			}
		})
	}
}

// hang stops the process of a kind that has run longest, and wakes it up later.
func (y *pipeline) hang(kind string) hangRow {
	y.T.Helper()
	p := y.First(kind)
	r := hangRow{hops: y.hops, kind: kind}
	r.during = y.batch("hang-"+kind, func() { p.Hang(y.T) })
	time.Sleep(settled)
	r.still = y.batch("hung-"+kind, nil)
	r.woken = y.batch("wake-"+kind, func() { p.Wake(y.T) })
	time.Sleep(settled)
	y.replayed("hang-" + kind) // what the woken one still wrote changed nothing
	y.replayed("wake-" + kind)
	return r
}

// replayed wants a scenario's answers again, from their logs.
func (y *pipeline) replayed(scenario string) {
	y.T.Helper()
	for i := range requests {
		a, err := y.load.again(scenario, i)
		if err != nil {
			y.T.Errorf("%s, request %d, replayed: %v", scenario, i, err)
		} else {
			y.compareOne(scenario+", replayed", i, a)
		}
	}
}

// check bears so long a pause that is not the replica's, and tells of longer ones.
func (r hangRow) check(anyway time.Duration, beyond func(format string, args ...any)) {
	for _, c := range []struct {
		of    row
		limit time.Duration
	}{{r.during, costOnce}, {r.still, costAfter}, {r.woken, costAfter}} {
		if most := c.limit + anyway; c.of.stall > most || c.of.first > most {
			beyond("%s, %s: a pause of %v, first chunks after %v; at most %v is allowed",
				r.hops, c.of.scenario, c.of.stall, c.of.first, most)
		}
	}
}

func hangTable(rows []hangRow) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "hops\thung\tstall s\tre-issues\tstill hung: first s\tstall s\tre-issues\twoken: stall s\tre-issues")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%.0f\t%.2f\t%.2f\t%.0f\t%.2f\t%.0f\n", r.hops, r.kind,
			r.during.stall.Seconds(), r.during.reissues, r.still.first.Seconds(), r.still.stall.Seconds(), r.still.reissues,
			r.woken.stall.Seconds(), r.woken.reissues)
	}
	w.Flush()
	return b.String()
}

// stallBeyond is how long streams may stand still after a hang began, where a sibling goes on with
// them, or after it has ended, where there is none.
const stallBeyond = 2 * time.Second

// The only server, Kafka, the only replica of each service and one of two hang for longer than any
// patience with what is slow: no request is lost, and none stands still for much longer.
func TestLongHangs(t *testing.T) {
	lengths, kinds := []time.Duration{20 * time.Second, 40 * time.Second, 90 * time.Second}, fleet.Kinds
	mode := wanted(t)
	if mode == short {
		lengths, kinds = lengths[:1], []string{"gate"}
	}
	programs := fleet.Build(t)
	broker := fleet.NewBroker(t, programs)
	t.Setenv("SWITCHYARD_KAFKA", broker.Addr())
	y := startPipeline(t, programs, "unacked")
	defer func() { t.Log("\n" + y.table()) }()
	y.Scale(1, 1)
	y.alone()
	for _, length := range lengths {
		y.hangsFor("lone", "nats", y.Servers[0].Process, length, length)
		for _, kind := range kinds {
			y.hangsFor("lone", kind, y.First(kind), length, length)
		}
	}
	if mode == short {
		return
	}
	y.Scale(2, 2)
	y.Add("scaler").Await(t, "ready")
	for _, length := range lengths {
		y.hangsFor("sibling", "kafka", broker.Process, length, 0)
		for _, kind := range kinds {
			y.hangsFor("sibling", kind, y.First(kind), length, 0)
		}
	}
}

// hangsFor has a process hang in the middle of a batch. Streams may stand still for so long, and
// a little more.
func (y *pipeline) hangsFor(beside, who string, p *fleet.Process, length, still time.Duration) {
	y.T.Helper()
	r := y.batch(fmt.Sprintf("hang-%s-%s-%v", beside, who, length), func() {
		p.Hang(y.T)
		time.Sleep(length)
		p.Wake(y.T)
	})
	if beyond := r.stall - still; beyond > stallBeyond {
		y.T.Logf("%s: streams stood still for %.1f s beyond what nobody can help", r.scenario, beyond.Seconds())
	}
	time.Sleep(settled)
}
