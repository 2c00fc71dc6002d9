package chaos

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

const (
	// hosts is how many expert hosts there are; each function has two of them.
	hosts = 4
	// share is how much of what one host fewer carries the clients ask for.
	share = 0.9
	// mostWorkers ask at a time, at most.
	mostWorkers = 32
	// killEvery is how often a host dies.
	killEvery = 10 * time.Second
	// kept is the least share of tokens a second, and slower the most times of the time a token, that dying hosts may
	// leave.
	kept, slower = 0.98, 1.5
)

// TestPriceOfKilledHosts says what it costs that one of four expert hosts dies every ten seconds and starts again:
// tokens a second, and the 99th percentile of the time a token, beside the same load without deaths. Both alternate.
func TestPriceOfKilledHosts(t *testing.T) {
	length, rounds := time.Minute, 2
	switch wanted(t) {
	case short:
		t.Skip("it takes minutes; set SWITCHYARD_CHAOS=1, or long for 5 minutes of each")
	case "long":
		length = 5 * time.Minute
	}
	programs := fleet.Build(t)
	for name, flags := range map[string][]string{"cpu": nil, "paced": {"--device", "paced", "--profile", "a6000-mixtral"}} {
		t.Run(name, func(t *testing.T) {
			y := startPipeline(t, programs, "unacked")
			started := y.Launch(1, 0)
			add := func() *fleet.Process { return y.Add("expert", flags...) }
			for range hosts - 1 {
				started = append(started, add())
			}
			for _, p := range started {
				p.Await(t, "ready")
			}
			y.replicate(programs)
			y.alone()
			workers := y.workersFor(share * y.rate("most", mostWorkers, 10*time.Second, nil).tokens)
			add().Await(t, "ready")
			time.Sleep(settled)
			var rates, slow []float64
			for round := range rounds {
				calm := y.rate(fmt.Sprintf("calm-%d", round), workers, length, nil)
				deadly := y.rate(fmt.Sprintf("deadly-%d", round), workers, length, func() {
					y.Kill("expert")
					add().Await(t, "ready")
				})
				rates, slow = append(rates, deadly.tokens/calm.tokens), append(slow, deadly.p99.Seconds()/calm.p99.Seconds())
				t.Logf("%s hosts, %d at a time: %.0f and %.0f tokens/s, a token in %v and %v at p99 (without and with deaths)", name, workers, calm.tokens, deadly.tokens, calm.p99, deadly.p99)
			}
			if r, s := slices.Max(rates), slices.Min(slow); r < kept || s > slower {
				t.Logf("beyond what deaths should cost: %.3f of the tokens a second (%.2f wanted), %.2f times the time a token (%.1f)", r, kept, s, slower)
			}
		})
	}
}

// replicate has each function on two hosts.
func (y *pipeline) replicate(programs string) {
	y.T.Helper()
	out, err := exec.CommandContext(y.T.Context(), filepath.Join(programs, "switchyard"), "plan", "set", "--nats", y.URL(), "--grouping", "expert", "--replicas", "2").CombinedOutput()
	if err != nil {
		y.T.Fatalf("setting the plan: %v\n%s", err, out)
	}
}

// workersFor is the most clients in a closed loop that get no more tokens a second than wanted.
func (y *pipeline) workersFor(wanted float64) int {
	for n := 2; n < mostWorkers; n += 2 {
		if y.rate(fmt.Sprintf("with-%d", n), n, 5*time.Second, nil).tokens > wanted {
			return n - 1
		}
	}
	return mostWorkers
}

// pace is what clients of a closed loop got.
type pace struct {
	tokens float64       // a second
	p99    time.Duration // of the mean time a token of an answer, behind its first
}

// rate has so many clients ask one request after the other for a time, and wants the answers that are known. trouble
// comes every killEvery; nil: none does.
func (y *pipeline) rate(scenario string, workers int, length time.Duration, trouble func()) pace {
	y.T.Helper()
	ctx, cancel := context.WithTimeout(y.T.Context(), length)
	defer cancel()
	var (
		all   sync.WaitGroup
		next  atomic.Int64
		count atomic.Int64
		mu    sync.Mutex
		each  []time.Duration
	)
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				p := prompt(scenario, i%requests)
				p.RequestId = fmt.Sprintf("%s-%d", scenario, i)
				var first, last time.Time
				told := 0
				a, err := y.load.stream(p, func(tokens int) {
					last = time.Now()
					if first.IsZero() {
						first = last
					}
					if ctx.Err() == nil {
						count.Add(int64(tokens - told))
					}
					told = tokens
				})
				if err != nil {
					y.T.Errorf("%s, request %d: %v", scenario, i, err)
					return
				}
				if !slices.Equal(a.ids, y.want[i%requests].ids) {
					y.T.Errorf("%s, request %d: the answer changed", scenario, i)
				}
				mu.Lock()
				each = append(each, last.Sub(first)/(tokens-1))
				mu.Unlock()
			}
		})
	}
	for trouble != nil {
		select {
		case <-time.After(killEvery):
			if ctx.Err() == nil {
				trouble()
				continue
			}
		case <-ctx.Done():
		}
		break
	}
	all.Wait()
	if len(each) == 0 {
		y.T.Fatalf("%s: no answer came", scenario)
	}
	slices.Sort(each)
	return pace{float64(count.Load()) / length.Seconds(), each[len(each)*99/100]}
}
