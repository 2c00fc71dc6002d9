package bits

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/drain"
)

// Hosts that hold fewer experts than they serve, down to one, give the bits of direct calls,
// whatever they are told to load ahead, and whoever tells them.
func TestOffloadIsDirect(t *testing.T) {
	const hosts = 2
	for _, tc := range testkit.Some([]struct {
		dir, offload string
		experts      int64 // that a host holds
		grouping     plan.Grouping
		replicas     int
	}{
		{goldens.Dir("olmoe"), "fmoe+", 9, plan.ByHost, 1},
		{goldens.Dir("qwen2_moe-mixed"), "lfu", 2, plan.ByHost, 1},
		{goldens.Dir("mixtral"), "lru", 1, plan.ByHost, 1},
		{goldens.Dir("gpt_oss-mxfp4"), "fmoe", 1, plan.ByExpert, hosts},
	}) {
		t.Run(filepath.Base(tc.dir)+"/"+tc.offload, func(t *testing.T) {
			t.Parallel()
			want := compared.Direct(t, tc.dir, tensor.BF16)
			m := clustertest.Open(t, tc.dir)
			y := clustertest.Start(t, m, clustertest.Hosts(hosts), clustertest.Context(compared.Positions), func(s *cluster.Settings) {
				s.Services.Expert.Offload, s.Services.Expert.MemoryBudget = tc.offload, uint64(tc.experts*largest(t, m))
				s.Services.Expert.Plans.Grouping, s.Services.Expert.Plans.Replicas = tc.grouping, tc.replicas
				if expert.Foresees(tc.offload) {
					s.Count["predictor"], s.Node.Shared.AllRows = 1, true
					s.Services.Predictor = predictor.Config{Distance: 1, Maps: predictor.Maps{Capacity: 9}}
					if tc.offload == expert.FMoEPlus {
						s.Services.Predictor.Maps.Chances = predictor.Learned
					}
				}
			})
			misleading(t, y, m)
			compared.Compare(t, y, hosts, want)
			compared.Same(t, y, want.Tokens, "once more")
			if expert.Foresees(tc.offload) {
				testkit.Eventually(t, "hints of the predictor", func() bool { // which sends none for rows that it sees late
					compared.Same(t, y, want.Tokens, "by hints")
					return counted(t, y, "switchyard_hints_sent_total") > 0
				})
				drainPredictor(t, y)
				compared.Same(t, y, want.Tokens, "without a predictor")
			}
			if n := summed(t, y, "switchyard_expert_accesses_total"); n == 0 {
				t.Error("no access was counted")
			}
		})
	}
}

func largest(t *testing.T, m *model.Model) int64 {
	t.Helper()
	n, err := device.Largest(m.Spec, func(id forward.ExpertID) (int64, error) { return forward.ExpertBytes(m, id) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// misleading sends hosts hints of any experts until the test ends, and what is none.
func misleading(t *testing.T, y clustertest.Cluster, m *model.Model) {
	t.Helper()
	conn, names := y.Conn(t), y.Settings.Node.Names().Subjects
	hosts := replicas(t, y, "expert", 2)
	number, err := strconv.ParseUint(m.Hash[:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	ctx, stop := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	t.Cleanup(func() { stop(); sending.Wait() })
	sending.Go(func() {
		for ctx.Err() == nil {
			h := &pb.Hint{Version: schemas.Version, Model: number, Predictor: "forged", Owner: fmt.Sprint("attention-", r.IntN(3)), Step: r.Uint64N(100), Microbatch: r.Uint32N(2), Reached: r.Uint32N(3)}
			for range r.IntN(4) {
				h.Layers = append(h.Layers, &pb.LayerHint{
					Layer: r.Uint32N(uint32(m.Spec.Layers)), Kind: plan.Routed, StepsAhead: r.Uint32N(3), Unit: []uint32{r.Uint32N(uint32(m.Spec.Experts))}, Probability: []float32{r.Float32() * 1.1}, Wanted: r.Uint32N(2),
				})
			}
			_ = conn.Send(ctx, names.Hint(hosts[r.IntN(len(hosts))]), h, nil) // they may be lost
			time.Sleep(3 * time.Millisecond)
		}
	})
}

// replicas are the ids of a service's, when there are so many.
func replicas(t *testing.T, y clustertest.Cluster, service string, count int) (ids []string) {
	t.Helper()
	told := y.Told(t)
	testkit.Eventually(t, fmt.Sprintf("%d of service %s", count, service), func() bool {
		ids = slices.Sorted(maps.Keys(told(service)))
		return len(ids) == count
	})
	return ids
}

// drainPredictor has the predictor leave.
func drainPredictor(t *testing.T, y clustertest.Cluster) {
	t.Helper()
	for _, id := range replicas(t, y, "predictor", 1) {
		gone := 0
		_, err := drain.Run(t.Context(), drain.Settings{
			Conn: y.Conn(t), Names: y.Settings.Node.Names(), Name: id, Within: testkit.Patience,
			Tell: func(r drain.Result) {
				if r.Drained {
					gone++
				}
			},
		})
		if err != nil || gone != 1 {
			t.Fatalf("draining %s: %d are gone, %v", id, gone, err)
		}
	}
}

// summed is a counter's value, whatever its labels.
func summed(t *testing.T, y clustertest.Cluster, name string) (sum float64) {
	t.Helper()
	all, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
