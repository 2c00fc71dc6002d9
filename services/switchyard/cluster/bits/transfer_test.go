package bits

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/plans"
)

// transfers are the modes in which rows travel, one after the other.
var transfers = []plan.Settings{
	{Transfer: plan.Indirect}, {Transfer: plan.Pipelined, Minibatch: 1}, {Transfer: plan.Pipelined, Minibatch: 7}, {Transfer: plan.Pipelined, Minibatch: 64}, {Transfer: plan.Direct},
}

// However rows travel between services, and while that changes, answers have the bits of direct calls, and
// no object is left.
func TestTransfersAreDirect(t *testing.T) {
	for _, dir := range testkit.Some([]string{goldens.Dir("gpt2_moe"), demo, goldens.Dir("bert_moe"), goldens.Dir("bert2bert_moe")}) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			compare := answersAre(t, &dir)
			y := clustertest.Start(t, clustertest.Open(t, dir), clustertest.Hosts(2), func(s *cluster.Settings) {
				clustertest.Context(2 * compared.Positions)(s)
				s.Services.Expert.Plans = transfers[0]
			})
			for i, s := range transfers {
				if i > 0 {
					travel(t, y, s)
				}
				y.AwaitHosts(t, 2)
				before := moved(t, y, s)
				if compare(y); moved(t, y, s) == before {
					t.Errorf("no rows travelled by %s", plan.TransferName(s.Transfer))
				}
			}
			nothingLeft(t, y)
		})
	}
}

// answersAre wants the bits of direct calls of a pipeline. A model that is an encoder gets a mask.
func answersAre(t *testing.T, dir *string) func(clustertest.Cluster) {
	t.Helper()
	switch filepath.Base(*dir) {
	case "bert_moe", "bert2bert_moe":
		*dir = clustertest.Masked(t, *dir)
		want := encoderAnswers(t, *dir, tensor.BF16)
		return func(y clustertest.Cluster) { t.Helper(); compareEncoded(t, y, want) }
	}
	want := compared.Direct(t, *dir, tensor.BF16)
	return func(y clustertest.Cluster) { t.Helper(); compared.Compare(t, y, 2, want) }
}

// travel sets how rows travel, and waits until a plan follows.
func travel(t *testing.T, y clustertest.Cluster, change plan.Settings) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	names := y.Settings.Node.Names()
	kv, err := plans.Open(ctx, y.Conn(t).JetStream(), names)
	if err != nil {
		t.Fatal(err)
	}
	now, err := planstore.ChangeSettings(ctx, kv, change)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := plans.Await(ctx, kv, y.Name(), now, change, 0); err != nil {
		t.Fatal(err)
	}
}

// moved is how many bytes gates have sent or stored in a mode.
func moved(t *testing.T, y clustertest.Cluster, s plan.Settings) float64 {
	t.Helper()
	all, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != "switchyard_transfer_bytes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["mode"] == plan.TransferName(s.Transfer) && labels["stage"] == "scatter" {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatal("there is no such metric")
	return 0
}

// nothingLeft waits until the store of rows is empty.
func nothingLeft(t *testing.T, y clustertest.Cluster) {
	t.Helper()
	conn, stream := y.Conn(t), y.Settings.Node.Names().Objects().Name
	testkit.Eventually(t, "no object is left", func() bool {
		state, err := conn.State(t.Context(), stream)
		return err == nil && state.Messages == 0
	})
}
