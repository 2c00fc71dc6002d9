package browned

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/control/directives"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

const (
	constantLoad   = 2 * time.Minute
	afterLoad      = 40 * time.Second
	constantTokens = 420 // of an answer: prompts are seldom in a step
	tooMuch        = 1.2 // what steps take without a brownout, by the objective
)

// steadyProfile is of a device that takes so many seconds an access.
const steadyProfile = `device: the test's
experts: the demo model's
read_bytes_per_second: {value: 1.0e+12, source: the test's}
flops_per_second: {value: 1.0e+15, source: the test's}
element_bytes: {value: 2, source: the test's}
access_seconds: {value: %g, source: the test's}
call_seconds: {value: 0, source: the test's}
alpha_seconds: {value: 1.0e-6, source: the test's}
beta_seconds: {value: 0, source: the test's}
expert_bytes: {value: 196608, source: the test's}
memory_bytes: {value: 1000000000, source: the test's}
bytes_per_second: {value: 1.0e+9, source: the test's}
cold_start_seconds: {value: 0, source: the test's}
`

// How thresholds move while streams decode for two minutes, at a fifth more than the objective, and in the minute
// behind the load. With one stream and rows that are left out, a layer has two accesses or one: nothing between.
// Answers are drawn, not greedy, and united experts are those of a folder: with worse ones, and in loops, streams come to
// say the same, which accesses less, so that the load is not constant.
//
//	SWITCHYARD_STEADY=united/ go test -count=1 -timeout 30m -run TestConstantLoad -v ./services/switchyard/cluster/browned
func TestConstantLoad(t *testing.T) {
	folder := os.Getenv("SWITCHYARD_STEADY")
	if folder == "" {
		t.Skip("SWITCHYARD_STEADY, a folder of united experts of way 8, measures thresholds for some twenty minutes")
	}
	for _, tc := range []struct {
		name     string
		streams  int
		access   float64
		strategy brownout.Strategy
	}{
		{"sixteen streams by way 8", 16, 1e-3, brownout.Partial},
		{"one stream that is left out", 1, 4e-3, brownout.Full},
	} {
		w := &constant{streams: tc.streams, folder: folder, profile: paceOf(t, tc.access)}
		slo := time.Duration(0)
		for _, by := range []string{"paper", "steady", "predictive"} {
			t.Run(tc.name+" "+by, func(t *testing.T) {
				if slo == 0 {
					slo = time.Duration(w.plain(t) / tooMuch * float64(time.Second))
				}
				moves := w.run(t, attention.Brownout{
					Strategy: tc.strategy, United: folder, Way: 8, Prefill: time.Hour, Decode: slo, MaxLoss: 1, Paper: by == "paper", Predictive: by == "predictive",
				})
				t.Logf("steps may take %v; %v", slo.Round(time.Millisecond), moves)
				if n := moves.reversals(); by != "paper" && n > int(constantLoad/time.Minute) {
					t.Errorf("%d reversals in %v", n, constantLoad)
				}
			})
		}
	}
}

// paceOf is a device that takes so many seconds an access.
func paceOf(t *testing.T, seconds float64) *profiles.Profile {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pace.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, steadyProfile, seconds), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := profiles.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// constant is a load that stays the same.
type constant struct {
	streams int
	folder  string
	profile *profiles.Profile
}

func (w *constant) start(t *testing.T, b attention.Brownout) clustertest.Cluster {
	t.Helper()
	return clustertest.Start(t, clustertest.Demo(t), clustertest.Context(512), func(c *cluster.Settings) {
		c.Services.Attention.Microbatches, c.Services.Attention.Speculate = 1, 0
		c.Services.Expert.Profile, c.Services.Attention.Brownout = w.profile, b
		if b.Strategy == brownout.Partial {
			c.Services.Expert.United, c.Services.Gate.United, c.Services.Expert.Plans.Way = w.folder, w.folder, b.Way
		}
	})
}

// load has streams decode until a context ends, and returns the seconds between tokens.
func (w *constant) load(ctx context.Context, t *testing.T, y clustertest.Cluster) (gaps []float64) {
	t.Helper()
	var all sync.WaitGroup
	var one sync.Mutex
	for i := range w.streams {
		all.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				got := w.stream(ctx, t, y, i, k)
				one.Lock()
				gaps = append(gaps, got...)
				one.Unlock()
			}
		})
	}
	all.Wait()
	return gaps
}

// stream asks for the k-th time. First answers differ in length, so that streams do not begin together again.
func (w *constant) stream(ctx context.Context, t *testing.T, y clustertest.Cluster, i, k int) (gaps []float64) {
	n, temperature, seed := int32(constantTokens), 1.0, uint32(1000*i+k)
	if k == 0 {
		n = n * int32(i+1) / int32(w.streams)
	}
	s, err := y.Producer.Ask(ctx, &pb.Prompt{
		InputIds: compared.PromptIDs(int(seed), 20, y.Settings.Node.Shared.Model.Spec.Vocab), MaxTokens: &n, IgnoreEos: true, Temperature: &temperature, Seed: &seed,
	})
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return nil
	}
	last := time.Time{}
	for _, err := range s.Chunks() {
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return gaps
		}
		now := time.Now()
		if !last.IsZero() {
			gaps = append(gaps, now.Sub(last).Seconds())
		}
		last = now
	}
	return gaps
}

// plain is the 90th percentile of the seconds between tokens without a brownout.
func (w *constant) plain(t *testing.T) float64 {
	t.Helper()
	y := w.start(t, attention.Brownout{})
	ctx, stop := context.WithTimeout(t.Context(), 15*time.Second)
	defer stop()
	gaps := w.load(ctx, t, y)
	if err := y.Close(); err != nil {
		t.Error(err)
	}
	return brownout.NearestRank(gaps, 0.9)
}

// run notes where decode's threshold goes.
func (w *constant) run(t *testing.T, b attention.Brownout) (moves moves) {
	t.Helper()
	y := w.start(t, b)
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, y.Name())}
	kv, err := y.Conn(t).JetStream().KeyValue(t.Context(), names.Bucket("brownout"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), constantLoad)
	defer stop()
	var loading sync.WaitGroup
	loading.Go(func() { w.load(ctx, t, y) })
	defer loading.Wait()
	at := uint32(brownout.One)
	for tick := time.NewTicker(100 * time.Millisecond); time.Since(began) < constantLoad+afterLoad; <-tick.C {
		d, _, err := directives.Read(t.Context(), kv)
		if err != nil {
			t.Fatal(err)
		}
		if to := d.GetDecodeMillionths(); d != nil && to != at {
			at = to
			moves = append(moves, move{time.Since(began), float64(to) / brownout.One})
		}
	}
	return moves
}

// move is where a threshold went, and when.
type move struct {
	after time.Duration
	to    float64
}

type moves []move

// during are those under the load.
func (m moves) during() moves {
	n, _ := slices.BinarySearchFunc(m, constantLoad, func(a move, at time.Duration) int { return int(a.after - at) })
	return m[:n]
}

// reversals counts the changes of direction under the load.
func (m moves) reversals() (n int) {
	at, way := 1.0, 0.0
	for _, one := range m.during() {
		to := math.Copysign(1, one.to-at)
		if way != 0 && to != way {
			n++
		}
		at, way = one.to, to
	}
	return n
}

// String tells when the threshold was as low as it first went, how often it turned, and when it was 1 again.
func (m moves) String() string {
	var b strings.Builder
	at, settled := 1.0, time.Duration(0)
	for _, one := range m.during() {
		if one.to > at {
			break
		}
		at, settled = one.to, one.after
	}
	fmt.Fprintf(&b, "first low %.3f after %.1f s, %d reversals in %v", at, settled.Seconds(), m.reversals(), constantLoad)
	if n := len(m); n > 0 && m[n-1].to == 1 {
		fmt.Fprintf(&b, ", 1 again %.1f s behind the load", (m[n-1].after - constantLoad).Seconds())
	}
	b.WriteString("; ")
	for _, one := range m {
		fmt.Fprintf(&b, " %.1f:%.3f", one.after.Seconds(), one.to)
	}
	return b.String()
}
