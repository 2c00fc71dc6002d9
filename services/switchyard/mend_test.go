package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	by "github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// plansIn are the layers' plans in force.
func plansIn(t *testing.T, kv jetstream.KeyValue) map[uint32]*pb.LayerPlan {
	t.Helper()
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint32]*pb.LayerPlan{}
	for _, key := range keys {
		entry, err := kv.Get(t.Context(), key)
		if l := (&pb.LayerPlan{}); err == nil && proto.Unmarshal(entry.Value(), l) == nil && len(l.Functions) > 0 {
			all[l.Layer] = l
		}
	}
	return all
}

// on reports whether a layer's plan wants anything of a host.
func on(l *pb.LayerPlan, host string) bool {
	return slices.ContainsFunc(l.Functions, func(f *pb.Function) bool { return slices.Contains(hostsOf(f), host) })
}

func hostsOf(f *pb.Function) (ids []string) {
	for _, p := range f.Placements {
		ids = append(ids, p.Host)
	}
	return ids
}

// others are the hosts of a plan that are not among these.
func others(plans map[uint32]*pb.LayerPlan, than []string) (ids []string) {
	for _, l := range plans {
		for _, f := range l.Functions {
			ids = append(ids, slices.DeleteFunc(hostsOf(f), func(h string) bool { return slices.Contains(than, h) })...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// byLoads reports whether a plan by loads wants something of a host.
func byLoads(plans map[uint32]*pb.LayerPlan, host string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(plans)), func(l *pb.LayerPlan) bool { return l.Policy != "" && on(l, host) })
}

// share gives a host a function of each layer that another host has, too, as a scaler does with
// experts of many rows.
func share(t *testing.T, kv jetstream.KeyValue, host string) {
	t.Helper()
	for number := range plansIn(t, kv) {
		key := strconv.Itoa(int(number))
		testkit.Eventually(t, "layer "+key+" has a replica more", func() bool {
			entry, err := kv.Get(t.Context(), key)
			l := &pb.LayerPlan{}
			if err != nil || proto.Unmarshal(entry.Value(), l) != nil {
				return false
			}
			i := slices.IndexFunc(l.Functions, func(f *pb.Function) bool { return !slices.Contains(hostsOf(f), host) })
			if i < 0 {
				return true
			}
			l.Functions[i].Placements = append(l.Functions[i].Placements, &pb.Placement{Host: host, Want: pb.Want_WANT_WARM})
			l.Version++
			body, err := proto.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			_, err = kv.Update(t.Context(), key, body, entry.Revision()) // the scaler may write, too
			return err == nil
		})
	}
}

// The last scaler is killed, and then a host, under requests: these get the answers of direct
// calls, and the scaler's plan stays, but for what was on that host alone.
func TestPlanOutlivesScalerAndHost(t *testing.T) {
	dir := goldens.Dir("mixtral")
	y := startUp(t, func(c *up.Cmd) {
		c.Model = []string{dir}
		c.Hosts, c.Listen, c.Scaling, c.ZeroAfter, c.Horizon = 2, testkit.FreeAddr(t), "moeless", 24*time.Hour, 10*time.Minute
	})
	kv, err := y.Conn(t).JetStream().KeyValue(t.Context(), y.Settings.Node.Names().Bucket("plans"))
	if err != nil {
		t.Fatal(err)
	}
	want := by.Direct(t, dir, tensor.BF16).Tokens
	var stay []string
	testkit.Eventually(t, "the process's hosts have a plan", func() bool { stay = others(plansIn(t, kv), nil); return len(stay) == 2 })
	way := startProxy(t, strings.TrimPrefix(y.URL(), "nats://"))
	startProbed(t, "expert", "nats://"+way.address, "--model", dir, "--threads", "1").ready(t)
	// While there are no requests, the scaler gives a host that has nothing a part, whatever that saves.
	host := ""
	testkit.Eventually(t, "the scaler's plan has the third host", func() bool {
		plans := plansIn(t, kv)
		hosts := others(plans, stay)
		if len(hosts) == 1 {
			host = hosts[0]
		}
		return len(hosts) == 1 && byLoads(plans, host)
	})
	share(t, kv, host)
	by.Same(t, y, want, "by the scaler's plan")

	conns := y.Pipeline.Connections()
	scaler := conns[len(conns)-1] // it is connected last
	if err := scaler.NATS().Publish(strings.Repeat("x", 5000), nil); err != nil {
		t.Fatal(err)
	}
	<-scaler.Closed()
	before := plansIn(t, kv)
	if !byLoads(before, host) {
		t.Fatalf("no plan by loads has %s", host)
	}
	by.Same(t, y, want, "without a scaler")
	way.hang()
	testkit.Eventually(t, "the plan is mended", func() bool {
		by.Same(t, y, want, "without a host")
		return len(others(plansIn(t, kv), stay)) == 0
	})
	for number, l := range plansIn(t, kv) {
		checkMended(t, before[number], l, host)
	}
	testkit.Eventually(t, "it is ready", func() bool { return y.Pipeline.Ready() == nil })
	by.Same(t, y, want, "by the mended plan")
	way.goOn() // so that the host can leave
}

// checkMended wants what a plan wanted of other hosts than this one as it was, and each function
// on one of them.
func checkMended(t *testing.T, before, after *pb.LayerPlan, host string) {
	t.Helper()
	if on(before, host) != strings.Contains(after.Reason, "no scaler is here, so the plan stays") || after.Policy != before.Policy || len(before.Functions) != len(after.Functions) {
		t.Errorf("layer %d: policy %q, %d functions of %d: %s", after.Layer, after.Policy, len(after.Functions), len(before.Functions), after.Reason)
		return
	}
	wants := func(f *pb.Function) map[string]pb.Want {
		all := map[string]pb.Want{}
		for _, p := range f.Placements {
			all[p.Host] = p.Want
		}
		return all
	}
	for i, f := range after.Functions {
		was, is := wants(before.Functions[i]), wants(f)
		delete(was, host)
		served := slices.ContainsFunc(slices.Collect(maps.Values(is)), func(w pb.Want) bool { return w != pb.Want_WANT_KEPT })
		if f.Id != before.Functions[i].Id || !served || len(was) > 0 && !maps.Equal(was, is) && slices.ContainsFunc(slices.Collect(maps.Values(was)), func(w pb.Want) bool { return w != pb.Want_WANT_KEPT }) {
			t.Errorf("layer %d, function %s: %v, before %v", after.Layer, f.Id, is, wants(before.Functions[i]))
		}
	}
}
