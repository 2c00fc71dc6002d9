package bits

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// TestPacedIsDirect wants from paced hosts the bits of direct calls, also from hosts that
// hold fewer experts than they serve, and figures that say whose they are.
func TestPacedIsDirect(t *testing.T) {
	const hosts = 3
	for _, tc := range []struct {
		dir, profile string
		memory       uint64
		offload      string
	}{
		{demo, "a6000-mixtral", 10_000_000_000, "lru"},
		{goldens.Dir("qwen2_moe-mixed"), "a6000-llama-4-scout", 0, ""},
	} {
		t.Run(filepath.Base(tc.dir), func(t *testing.T) {
			t.Parallel()
			want := compared.Direct(t, tc.dir, tensor.BF16)
			y := clustertest.Start(t, clustertest.Open(t, tc.dir),
				clustertest.Hosts(hosts), clustertest.Context(compared.Positions), clustertest.Paced(t, tc.profile), func(s *cluster.Settings) {
					s.Services.Expert.MemoryBudget, s.Services.Expert.Offload = tc.memory, tc.offload
					s.Services.Expert.Plans.Grouping = plan.ByExpert
				})
			compared.Compare(t, y, hosts, want)
			wantPaced(t, y, hosts, "paced:"+tc.profile)
		})
	}
}

// wantPaced wants all expert hosts to be such devices that have computed.
func wantPaced(t *testing.T, y clustertest.Cluster, hosts int, device string) {
	t.Helper()
	conn := y.Conn(t)
	r := top.NewReader(conn.NATS(), conn.JetStream(), y.Settings.Node.Names())
	defer r.Close()
	testkit.Eventually(t, fmt.Sprintf("%d hosts are %s", hosts, device), func() bool { // one may be late
		s, err := r.Snapshot(t.Context())
		if err != nil {
			return false
		}
		found := 0
		for _, m := range s.Members {
			if m.Device == device && m.Stats["paced_loads_total"] > 0 {
				found++
			}
		}
		return found == hosts && strings.Contains(s.View(nil), device+"  experts take that device's time")
	})
}
