package changes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// hostProfile is of a device that takes so long a row.
const hostProfile = `
device: the test's
experts: the demo model's
alpha_seconds: {value: %v, source: the test's}
beta_seconds: {value: 0, source: the test's}
expert_bytes: {value: 1, source: the test's}
memory_bytes: {value: 1000000, source: the test's}
bytes_per_second: {value: 1000000, source: the test's}
cold_start_seconds: {value: 0, source: the test's}
`

// A host that is far slower than its sibling is passed by, and tokens are those of
// a pipeline without it.
func TestSlowHost(t *testing.T) {
	if testkit.Race {
		t.Skip("the detector makes all hosts as slow as the slow one; TestHungReplica has the same goroutines")
	}
	t.Parallel()
	const fast, slow = 1e-6, 0.05 // the demo model's rows take a fraction of a millisecond
	file := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(file, profileOf(fast), 0o600); err != nil {
		t.Fatal(err)
	}
	y := clustertest.Start(t, clustertest.Demo(t), clustertest.Paced(t, file), func(s *cluster.Settings) { s.Services.Expert.Plans.Replicas = 2 })
	want, shares, rows := greedy(t, y), watchSlow(t, y), greedyRows(y.Settings.Node.Shared.Model)
	before := shares(rows)
	joinSlow(t, y, slow)
	had := false
	testkit.Eventually(t, "rows on the slow host, and then hardly any", func() bool {
		if got := greedy(t, y); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		now := shares(before.slow + before.others + rows)
		all := now.minus(before)
		before, had = now, had || all.slow > 0
		return had && all.slow < 0.05*(all.slow+all.others)
	})
}

func profileOf(alpha float64) []byte {
	return []byte(strings.TrimSpace(fmt.Sprintf(hostProfile, alpha)))
}

// greedyPrompt are the tokens of greedy's prompt, and greedyTokens those of its answer.
const greedyPrompt, greedyTokens = 5, 4

// greedy asks for the likeliest tokens.
func greedy(t *testing.T, y clustertest.Cluster) (ids []uint32) {
	t.Helper()
	for c, err := range y.Ask(t, &pb.Prompt{Text: "Once upon a time", MaxTokens: proto.Int32(greedyTokens), Temperature: proto.Float64(0), IgnoreEos: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.TokenIds...)
	}
	return ids
}

// joinSlow starts a second host, of a device of the same name.
func joinSlow(t *testing.T, y clustertest.Cluster, alpha float64) {
	t.Helper()
	profile, err := profiles.Read("host.yaml", profileOf(alpha))
	if err != nil {
		t.Fatal(err)
	}
	services := y.Settings.Services
	services.Expert.Profile = profile
	p := cluster.NewPipeline(y.Settings.Node, services, map[string]int{"expert": 1})
	ctx, stop := context.WithCancel(context.Background())
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// rowsOf are the routed rows that hosts have computed.
type rowsOf struct{ slow, others float64 }

func (r rowsOf) minus(o rowsOf) rowsOf { return rowsOf{r.slow - o.slow, r.others - o.others} }

// greedyRows are the rows of experts that one answer takes.
func greedyRows(m *model.Model) float64 {
	return float64((greedyPrompt + greedyTokens - 1) * m.Spec.MoELayers() * m.Spec.TopK)
}

// watchSlow returns what tells of all hosts' rows, when they have told of so many: slow ones are
// those of hosts that are not here yet.
func watchSlow(t *testing.T, y clustertest.Cluster) func(least float64) rowsOf {
	t.Helper()
	told := y.Told(t)
	var before map[string]*pb.Member
	testkit.Eventually(t, "the first host", func() bool { before = told("expert"); return len(before) == 1 })
	return func(least float64) (r rowsOf) {
		testkit.Eventually(t, fmt.Sprintf("%v rows are told of", least), func() bool {
			r = rowsOf{}
			for id, m := range told("expert") {
				if before[id] != nil {
					r.others += m.Stats[members.HostRows]
				} else {
					r.slow += m.Stats[members.HostRows]
				}
			}
			return r.slow+r.others >= least
		})
		return r
	}
}
