// Package browned tests whole pipelines whose rows united experts compute, or nobody: their bits are
// those of direct calls with the same split, whoever has them again, and `switchyard rerun` finds the
// same tokens.
package browned

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stamp is what gates obey.
func (s setting) stamp(t *testing.T, m *model.Model, folder string) *pb.Stamp {
	t.Helper()
	b, err := united.Open(folder, s.way, m)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	return &pb.Stamp{
		Version: 1, Strategy: pb.Strategy(s.strategy), Way: uint32(s.way), Bundle: b.ID(),
		PrefillMillionths: s.prefill, DecodeMillionths: s.decode, Whole: true,
	}
}

// start runs a pipeline whose steps all obey one stamp.
func start(t *testing.T, m *model.Model, folder string, s setting, changes ...clustertest.Change) clustertest.Cluster {
	t.Helper()
	stamp := s.stamp(t, m, folder)
	return clustertest.Start(t, m, append([]clustertest.Change{clustertest.Context(compared.Positions), func(c *cluster.Settings) {
		c.Services.Expert.United, c.Services.Gate.United, c.Services.Expert.Plans.Way = folder, folder, s.way
		c.Services.Attention.LongSteps = true // a prompt is one step, however slow the machine
		obey(c, stamp, s.exempt)
	}}, changes...)...)
}

// awaitWarm asks until no slot keeps its own expert for want of a united one.
func awaitWarm(t *testing.T, y clustertest.Cluster) {
	t.Helper()
	testkit.Eventually(t, "warm united experts", func() bool {
		cold, warm := slots(t, y, "cold"), slots(t, y, "united")
		answerOf(t, y, 0)
		return slots(t, y, "cold") == cold && slots(t, y, "united") > warm
	})
}

// slots are those of a fate, as gates have counted them.
func slots(t *testing.T, y clustertest.Cluster, fate string) float64 {
	t.Helper()
	all, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != "switchyard_brownout_slots_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == fate {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
