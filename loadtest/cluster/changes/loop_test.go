package changes

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// startLoop is a pipeline with a control loop that decides by a policy.
func startLoop(t *testing.T, policy string, changes ...clustertest.Change) clustertest.Cluster {
	t.Helper()
	changes = append([]clustertest.Change{clustertest.Context(compared.Positions), clustertest.Loop(policy)}, changes...)
	return clustertest.Start(t, clustertest.Open(t, elasticModel), changes...)
}

// changed is how many layers have a plan that EPLB made by loads.
func changed(t *testing.T, plans jetstream.KeyValue) (layers int) {
	t.Helper()
	keys, err := plans.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		entry, err := plans.Get(t.Context(), key)
		l := &pb.LayerPlan{}
		if err != nil || proto.Unmarshal(entry.Value(), l) != nil {
			continue // settings
		}
		if strings.HasPrefix(l.Reason, "eplb") {
			layers++
		}
	}
	return layers
}

// Seven services in one process answer as five do while a scaler changes plans. EPLB changes
// them every second by loads alone: other policies leave a plan that suits so few rows.
func TestLoopIsDirect(t *testing.T) {
	y := startLoop(t, "eplb:every=1s", clustertest.Hosts(3))
	want := compared.Direct(t, elasticModel, tensor.BF16).Tokens
	plans, err := y.Conn(t).JetStream().KeyValue(t.Context(), y.Settings.Node.Names().Bucket("plans"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all layers' plans change", func() bool {
		compared.Same(t, y, want, "while plans change")
		return changed(t, plans) == y.Settings.Node.Shared.Model.Spec.MoELayers()
	})
	compared.Same(t, y, want, "by the changed plan")
}

// A connection of the control loop that the server closes for good ends nothing.
func TestLoopEndsAlone(t *testing.T) {
	t.Parallel()
	y := startLoop(t, "static")
	for _, conn := range y.Pipeline.Connections()[len(cluster.Names)+1:] { // a tokenizer has two
		if err := conn.NATS().Publish(strings.Repeat("x", 5000), nil); err != nil {
			t.Fatal(err)
		}
		<-conn.Closed()
	}
	compared.Same(t, y, compared.Direct(t, elasticModel, tensor.BF16).Tokens, "without the control loop")
	testkit.Eventually(t, "it is ready", func() bool { return y.Pipeline.Ready() == nil }) // unless a member is late
	if err := y.Pipeline.Live(); err != nil {
		t.Error(err)
	}
}
