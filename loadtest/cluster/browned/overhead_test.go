package browned

import (
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// A round is so many requests at a time, of so many tokens each.
// Short rounds that alternate see the same machine.
const (
	roundRequests = 16
	roundTokens   = 48
	mostPairs     = 1000
	warmPairs     = 3 // before those that count
)

// What brownouts cost where they change nothing, and what fates cost in messages and logs: rounds of
// two pipelines alternate, SWITCHYARD_PAIRS of them.
//
//	SWITCHYARD_PAIRS=150 go test -count=1 -timeout 30m -run TestOverhead -v ./services/switchyard/cluster/browned
func TestOverhead(t *testing.T) {
	pairs, err := strconv.Atoi(os.Getenv("SWITCHYARD_PAIRS"))
	if err != nil {
		t.Skip("SWITCHYARD_PAIRS says how many pairs of rounds are measured; without it nothing is")
	}
	if pairs < 2 || pairs > mostPairs {
		t.Fatalf("SWITCHYARD_PAIRS is %d; it must be 2 to %d", pairs, mostPairs)
	}
	controlled := func(predictive bool) clustertest.Change {
		return func(c *cluster.Settings) {
			c.Services.Attention.Brownout = attention.Brownout{Strategy: brownout.Full, Prefill: time.Hour, Decode: time.Hour, MaxLoss: 1, Predictive: predictive}
		}
	}
	stamp := &pb.Stamp{Version: 1, Strategy: pb.Strategy_STRATEGY_FULL, PrefillMillionths: 500_000, DecodeMillionths: 400_000, Whole: true}
	degraded := func(c *cluster.Settings) { obey(c, stamp, nil) }
	silent := func(c *cluster.Settings) {
		degraded(c)
		c.Services.Gate.Fates = func(*pb.Hidden) *pb.Fates { return nil }
	}
	none := func(*cluster.Settings) {}
	oneByOne := func(c *cluster.Settings) { // steps vary less
		c.Services.Attention.Microbatches, c.Services.Attention.Speculate = 1, 0
	}
	for _, tc := range []struct {
		name          string
		with, without clustertest.Change
	}{
		{"threshold 1, steady", controlled(false), none},
		{"threshold 1, predictive", controlled(true), none},
		{"fates in messages and the log", degraded, silent},
		{"nothing, by itself", none, none},
	} {
		t.Run(tc.name, func(t *testing.T) {
			both := [2]clustertest.Cluster{clustertest.Start(t, clustertest.Demo(t), oneByOne, tc.without), clustertest.Start(t, clustertest.Demo(t), oneByOne, tc.with)}
			var walls, cores []float64
			for i := range pairs + warmPairs {
				var wall, core [2]float64
				for k := range both {
					which := (i + k) % 2
					wall[which], core[which] = round(t, both[which])
				}
				if i >= warmPairs {
					walls, cores = append(walls, wall[1]/wall[0]), append(cores, core[1]/core[0])
				}
			}
			for what, ratios := range map[string][]float64{"time": walls, "processor time": cores} {
				mean, half := quantile.Interval95(ratios)
				middle, low, high := median95(ratios)
				t.Logf("%s: %+.2f %% of a round's %s, 95 %% interval %+.2f to %+.2f %%; in the median %+.2f %%, %+.2f to %+.2f %%; %d pairs", tc.name,
					100*(mean-1), what, 100*(mean-half-1), 100*(mean+half-1), 100*(middle-1), 100*(low-1), 100*(high-1), pairs)
			}
		})
	}
}

// median95 is the median of many values, and its 95 % interval, by their order alone. It sorts them.
func median95(values []float64) (middle, low, high float64) {
	slices.Sort(values)
	n := float64(len(values))
	at := func(rank float64) float64 { return values[min(max(int(rank), 0), len(values)-1)] }
	half := 0.98 * math.Sqrt(n)
	return (at((n-1)/2) + at(n/2)) / 2, at(math.Floor(n/2 - half)), at(math.Ceil(n/2 + half - 1))
}

// round is the seconds that requests take which begin together, and those of processors. The idle pipeline
// beside them takes some too.
func round(t *testing.T, y clustertest.Cluster) (wall, core float64) {
	t.Helper()
	began, before, most, greedy := time.Now(), processorSeconds(), int32(roundTokens), 0.0
	var all sync.WaitGroup
	for i := range roundRequests {
		chunks := y.Ask(t, &pb.Prompt{InputIds: compared.PromptIDs(i, 20, y.Settings.Node.Shared.Model.Spec.Vocab), MaxTokens: &most, IgnoreEos: true, Temperature: &greedy})
		all.Go(func() {
			for _, err := range chunks {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(began).Seconds(), processorSeconds() - before
}

// processorSeconds are those that this process has taken.
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + 1e-6*float64(u.Utime.Usec+u.Stime.Usec)
}
