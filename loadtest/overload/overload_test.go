// Package overload offers a pipeline more than it can do, by many tenants of whom
// one sends most, and reports what becomes of whom. It is a test of its own, started
// with SWITCHYARD_OVERLOAD=2m, which is how long each phase lasts.
package overload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// The load: small requests of ten tenants, of whom the first sends nine tenths,
// and now and then one that fills the context.
const (
	tenants      = 10
	hotShare     = 0.9
	promptTokens = 32
	answerTokens = 32
	wholePrompt  = 448 // with its answer, most of the demo model's context of 512
	wholeEvery   = 4 * time.Second
	overload     = 3
	// clients find the best rate: more than sequences at once.
	clients = 48
)

// What must hold at three times the best rate.
const (
	leastGoodput = 0.9
	mostTPOT     = 1.3
	leastOthers  = 0.95
)

var flags = []string{"up", "--scaling", "none", "--max-sequences", "32", "--max-queued", "128", "--log-age", "10m"}

func TestOverload(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SWITCHYARD_OVERLOAD"))
	if err != nil {
		t.Skip("set SWITCHYARD_OVERLOAD to a duration such as 2m to run it")
	}
	y := start(t)
	y.closedLoop(length / 8) // it gets warm
	rate := y.closedLoop(length/2).goodput() / answerTokens
	t.Logf("best rate: %.1f requests/s (%d clients that wait for their answers)", rate, clients)
	once := y.openLoop(rate, length)
	before := y.memory()
	thrice := y.openLoop(overload*rate, length)
	after := y.memory()
	t.Logf("at the best rate:\n%s", once)
	t.Logf("at %d times the best rate:\n%s", overload, thrice)
	t.Logf("memory: %.0f MiB before, %.0f MiB after", before, after)
	check(t, once, thrice)
}

func check(t *testing.T, once, thrice *report) {
	t.Helper()
	if share := thrice.goodput() / once.goodput(); share < leastGoodput {
		t.Errorf("goodput is %.2f of that at the best rate, want %.2f", share, leastGoodput)
	}
	if ratio := thrice.tpot(0.99) / once.tpot(0.99); ratio > mostTPOT {
		t.Errorf("time per token at the 99th percentile is %.2f times as long, want at most %.2f", ratio, mostTPOT)
	}
	if share := thrice.answered(isOther); share < leastOthers {
		t.Errorf("%.2f of the other tenants' requests were answered, want %.2f", share, leastOthers)
	}
	for _, r := range []*report{once, thrice} {
		if n := r.failed(); n > 0 {
			t.Errorf("%d requests failed, other than by overload", n)
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
	addr := fleet.FreeAddr(t)
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
	r := newReport(length)
	end := time.Now().Add(length)
	for i := range clients {
		r.sending.Go(func() {
			for time.Now().Before(end) {
				y.send(r, small(i%tenants))
			}
		})
	}
	r.sending.Wait()
	return r
}

// openLoop sends at a rate, whatever becomes of what was sent, and waits for the rest.
func (y *yard) openLoop(rate float64, length time.Duration) *report {
	r := newReport(length)
	ctx, cancel := context.WithTimeout(y.t.Context(), length)
	defer cancel()
	r.sending.Go(func() {
		for pause(ctx, wholeEvery) {
			r.sending.Go(func() { y.send(r, whole()) })
		}
	})
	for next := time.Now(); pause(ctx, time.Until(next)); {
		next = next.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		r.sending.Go(func() { y.send(r, small(someTenant())) })
	}
	r.sending.Wait()
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
func (y *yard) memory() float64 {
	var pages, resident float64
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", y.proc.PID()))
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages, &resident)
	}
	if err != nil {
		y.t.Fatalf("reading the process's memory: %v", err)
	}
	return resident * float64(os.Getpagesize()) / (1 << 20)
}
