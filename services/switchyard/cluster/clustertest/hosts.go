package clustertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/united"
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

// gatesFollow reports whether all gates use the newest plan of each layer.
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

// Mask is the token that copies by Masked fill.
const Mask = 7

// Masked returns a copy of a checkpoint whose config names a mask.
func Masked(t testing.TB, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), "{", fmt.Sprintf(`{"mask_token_id": %d,`, Mask), 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Students writes united experts of some ways into a folder: each is the mean of its group, quickly
// made and of little use. With a gap, the last group of the last layer has none.
func Students(t testing.TB, m *model.Model, gap bool, ways ...int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, way := range ways {
		f, err := os.Create(filepath.Join(dir, united.Name(way)))
		if err != nil {
			t.Fatal(err)
		}
		h := united.Header{Model: m.Hash, Way: way, Experts: m.Spec.Experts, Loss: "mean", Data: "none", Note: "of a test"}
		for l, layer := range m.Spec.Layer {
			for g := range h.Groups() {
				if layer.MoE {
					h.Table = append(h.Table, groupOf(&h, l, g))
				}
			}
		}
		if gap {
			h.Table[len(h.Table)-1].Rows = 0
		}
		err = united.Write(f, &m.Spec, h, func(layer, group int) (united.Weights, error) {
			of := groupOf(&h, layer, group)
			return mean(m, layer, of.Experts)
		})
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// groupOf has neighbours by way 2, and by others experts that lie apart. What handing their rows over
// costs is in no order.
func groupOf(h *united.Header, layer, group int) united.Group {
	g := united.Group{Layer: layer, Group: group, Rows: 1, Error: 0.5}
	for at := group * h.Way; at < min((group+1)*h.Way, h.Experts); at++ {
		e := at
		if h.Way > 2 {
			e = at / 2
			if at%2 == 1 {
				e = h.Experts - 1 - at/2
			}
			g.Of = append(g.Of, int32(e))
		}
		g.Experts = append(g.Experts, united.Cost{Expert: e, Rows: 1, Distance: float64(1 + (7*e+3*layer)%5), Norm: 6})
	}
	return g
}

func mean(m *model.Model, layer int, of []united.Cost) (w united.Weights, err error) {
	var parts [3][]byte
	for k, role := range []model.Role{model.ExpertRoles.Gate, model.ExpertRoles.Up, model.ExpertRoles.Down} {
		var sum []float32
		for _, e := range of {
			one, err := m.Floats(model.Ref{Role: role, Layer: layer, Expert: e.Expert})
			if err != nil {
				return w, err
			}
			if sum == nil {
				sum = make([]float32, len(one))
			}
			for i, v := range one {
				sum[i] += v / float32(len(of))
			}
		}
		if parts[k], err = safetensors.Encode(sum, safetensors.BF16); err != nil {
			return w, err
		}
	}
	return united.Weights{Gate: parts[0], Up: parts[1], Down: parts[2]}, nil
}
