// Package overload offers a pipeline more than it can do, by many tenants of whom
// one sends most, and reports what becomes of whom. It is a test of its own, started
// with SWITCHYARD_OVERLOAD=2m, which is how long it is offered too much.
package overload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// The load: small requests of ten tenants, of whom the first sends nine tenths,
// and now and then one that fills the context.
const (
	tenants      = 10
	hotShare     = 0.9
	promptTokens = 32
	answerTokens = 32
	wholePrompt  = 480 // with its answer the demo model's context
	wholeEvery   = 4 * time.Second
	overload     = 3
	// places is how many sequences run at once.
	places = 32
	// lostAfter is when a request counts as never ending.
	lostAfter = 2 * time.Minute
	// clients find the best rate: more than run at once.
	clients = 48
	// logAge is short, so that the token log has its steady size before memory is judged.
	logAge = time.Minute
)

// What must hold at three times the best rate.
const (
	leastGoodput = 0.9
	mostTPOT     = 1.3
	leastOthers  = 0.95
	// leastKept of those who come again at the time that they were told, and not later
	// than promises are given for, must be let in.
	leastKept = 0.9
	// enoughCame is how many must have come for leastKept to be judged.
	enoughCame  = 30
	promisedFor = time.Minute
	// mostGrowth of memory from the second quarter to the last one: collections are
	// not seldom enough to be told from growth below it.
	mostGrowth = 1.15
)

var flags = []string{
	"up", "--http", "off", "--scaling", "none", "--max-sequences", strconv.Itoa(places), "--max-queued", "128", "--log-age", logAge.String(),
}

func TestOverload(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SWITCHYARD_OVERLOAD"))
	if err != nil {
		t.Skip("set SWITCHYARD_OVERLOAD to a duration such as 2m to run it")
	}
	y := start(t)
	y.closedLoop(min(length/8, 15*time.Second)) // it gets warm
	short := min(length, time.Minute)
	before := []*report{y.closedLoop(short)}
	rate := before[0].goodput()/answerTokens - 1/wholeEvery.Seconds()
	t.Logf("%d clients that wait for their answers, %.1f small requests/s:\n%s", clients, rate, before[0])
	before = append(before, y.openLoop(rate, short))
	t.Logf("the same rate, whatever becomes of them:\n%s", before[1])
	thrice := y.openLoop(overload*rate, length)
	t.Logf("%d times that rate:\n%s", overload, thrice)
	after := []*report{y.closedLoop(short), y.openLoop(rate, short)}
	t.Logf("the clients again:\n%s", after[0])
	t.Logf("the best rate again:\n%s", after[1])
	best := max(between(before[0].goodput(), after[0].goodput()), between(before[1].goodput(), after[1].goodput()))
	check(t, best, between(before[1].tpot(0.99), after[1].tpot(0.99)), thrice)
	thrice.checkTurns(t, (places+tenants)/rate)
	thrice.checkPromises(t)
	if length >= 2*logAge {
		thrice.checkMemory(t)
	}
	for _, r := range slices.Concat(before, []*report{thrice}, after) {
		r.checkFailures(t)
	}
}

func between(a, b float64) float64 { return (a + b) / 2 }

// check compares the overloaded pipeline with one at its best rate, by what that did
// before and after: a machine has not the same speed all the time.
func check(t *testing.T, goodput, tpot float64, thrice *report) {
	t.Helper()
	share, ratio := thrice.goodput()/goodput, thrice.tpot(0.99)/tpot
	t.Logf("goodput is %.3f of the best, time per token at the 99th percentile %.2f times that at the best", share, ratio)
	if share < leastGoodput {
		t.Errorf("goodput is %.2f of the best, want %.2f", share, leastGoodput)
	}
	if ratio > mostTPOT {
		t.Errorf("time per token at the 99th percentile is %.2f times as long, want at most %.2f", ratio, mostTPOT)
	}
	for name, which := range map[string]func(*outcome) bool{"the other tenants'": isOther, "the whole-context": isBig} {
		if share := thrice.answered(which); share < leastOthers {
			t.Errorf("%.2f of %s requests were answered, want %.2f", share, name, leastOthers)
		}
	}
}

// yard is the pipeline under load, and those who send.
type yard struct {
	t    *testing.T
	proc *fleet.Process
	ncs  []*nats.Conn // one a tenant
}

func start(t *testing.T) *yard {
	t.Helper()
	addr := testkit.FreeAddr(t)
	y := &yard{t: t, proc: fleet.Launch(t, "up", fleet.Build(t)+"/switchyard", append(flags, "--listen", addr)...)}
	y.proc.Await(t, "ready")
	for range tenants + 1 {
		nc, err := nats.Connect("nats://"+addr, nats.MaxReconnects(-1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		y.ncs = append(y.ncs, nc)
	}
	return y
}

// closedLoop keeps a number of clients busy for a while.
func (y *yard) closedLoop(length time.Duration) *report {
	ctx, cancel := context.WithTimeout(y.t.Context(), length)
	defer cancel()
	r := y.phase(ctx, length)
	for i := range clients {
		r.sending.Go(func() {
			for ctx.Err() == nil {
				y.send(r, small(i%tenants))
			}
		})
	}
	r.sending.Wait()
	return r
}

// openLoop sends at a rate, whatever becomes of what was sent, and waits for the rest.
func (y *yard) openLoop(rate float64, length time.Duration) *report {
	ctx, cancel := context.WithTimeout(y.t.Context(), length)
	defer cancel()
	r := y.phase(ctx, length)
	for next := time.Now(); pause(ctx, time.Until(next)); {
		next = next.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		r.sending.Go(func() { y.send(r, small(someTenant())) })
	}
	r.sending.Wait()
	return r
}

// phase begins what all of them have: requests of the whole context, and looks at
// the pipeline's memory.
func (y *yard) phase(ctx context.Context, length time.Duration) *report {
	r := newReport(length)
	r.sending.Go(func() {
		for pause(ctx, wholeEvery) {
			r.sending.Go(func() { y.send(r, whole()) })
		}
	})
	r.sending.Go(func() {
		for pause(ctx, time.Second) {
			held, err := y.memory()
			if err != nil {
				y.t.Errorf("reading the process's memory: %v", err)
				return
			}
			r.memory = append(r.memory, held)
		}
	})
	return r
}

func someTenant() int {
	if rand.Float64() < hotShare {
		return 0
	}
	return 1 + rand.IntN(tenants-1)
}

// pause is false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// memory is what the pipeline's process holds, in MiB.
func (y *yard) memory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", y.proc.PID()))
	if err != nil {
		return 0, err
	}
	var pages, resident float64
	if _, err := fmt.Sscan(string(text), &pages, &resident); err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	return resident * float64(os.Getpagesize()) / (1 << 20), nil
}
