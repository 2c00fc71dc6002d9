package clustertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// AwaitHosts waits until the gates use a plan that has so many hosts.
func (y Cluster) AwaitHosts(t testing.TB, hosts int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	conn, names, m := y.Conn(t), y.Settings.Node.Names(), y.Settings.Node.Shared.Model
	plans, err := conn.EnsureBucket(ctx, 1, names.Bucket("plans"), 0)
	if err != nil {
		t.Fatal(err)
	}
	present, err := conn.EnsureBucket(ctx, 1, names.Bucket("members"), members.BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	view, err := members.Watch(ctx, present)
	if err != nil {
		t.Fatal(err)
	}
	for {
		state, err := planstore.New(plans, planstore.Settings{Rules: legalPlans(m, view.Snapshot())}).Read(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the gates use no plan with %d hosts: %v", hosts, err)
		}
		if layers := state.Layers(); err == nil && len(plan.Hosts(layers)) == hosts && gatesFollow(ctx, conn, names, view.Snapshot(), layers) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// AwaitAttention waits until a stat of attention's replicas, such as members.Waiting, adds up to so
// many requests.
func (y Cluster) AwaitAttention(t testing.TB, stat string, requests int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	present, err := y.Conn(t).EnsureBucket(ctx, 1, y.Settings.Node.Names().Bucket("members"), members.BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	view, err := members.Watch(ctx, present)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, fmt.Sprintf("%s is %d", stat, requests), func() bool {
		sum := 0
		for _, m := range members.OfService(view.Snapshot(), "attention") {
			sum += int(m.Stats[stat])
		}
		return sum == requests
	})
}

// Told returns what tells what each replica of a service said last, by id: a busy machine may be late
// with its next word, for which others would count the replica as gone.
func (y Cluster) Told(t testing.TB) func(service string) map[string]*pb.Member {
	t.Helper()
	present, err := y.Conn(t).EnsureBucket(t.Context(), 1, y.Settings.Node.Names().Bucket("members"), members.BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	return func(service string) map[string]*pb.Member {
		t.Helper()
		entries, err := bus.Entries(t.Context(), present)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]*pb.Member{}
		for id, entry := range entries {
			if m := (&pb.Member{}); proto.Unmarshal(entry.Value(), m) == nil && m.Service == service {
				all[id] = m
			}
		}
		return all
	}
}

// legalPlans says what a legal plan of a model is to a member that is here.
func legalPlans(m *model.Model, all []*pb.Member) plan.Rules {
	s := plan.Rules{Experts: m.Spec.Experts}
	if len(all) > 0 {
		s.Kind = schemas.KindOf(all[0])
	}
	for l, spec := range m.Spec.Layer {
		if spec.MoE {
			s.MoELayers = append(s.MoELayers, l)
		}
	}
	return s
}

// gatesFollow says whether all gates use the newest plan of each layer.
func gatesFollow(ctx context.Context, conn *bus.Conn, names schemas.Streams, all []*pb.Member, layers map[int]*plan.Layer) bool {
	said, err := conn.EnsureBucket(ctx, 1, names.Bucket("functions"), 0)
	if err != nil {
		return false
	}
	gates := members.OfService(all, "gate")
	for _, m := range gates {
		entry, err := said.Get(ctx, planstore.GateKey(m.Id))
		r := &pb.GateLayers{}
		if err != nil || proto.Unmarshal(entry.Value(), r) != nil {
			return false
		}
		for l, p := range layers {
			if r.Versions[uint32(l)] != p.Version {
				return false
			}
		}
	}
	return len(gates) > 0
}
