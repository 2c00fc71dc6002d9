package planstore

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A host follows the gates and the layers of its own keys, further layers as they come, and
// everything once somebody wants to know all keys.
func TestFollowOwn(t *testing.T) {
	b, _ := announcing(t)
	host, err := NewFunctionView(b.kv, rules)
	if err != nil {
		t.Fatal(err)
	}
	own, err := NewAnnouncer(b.kv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { host.FollowOwn(ctx, own) })
	tasks.Go(func() { _ = own.Run(ctx) })
	t.Cleanup(func() { stop(); tasks.Wait() })
	say := func(a *Announcer, id string, layer uint32) {
		r := warmOn(id, one)
		r.Layer = layer
		if err := a.Set(HostKey(int(layer), id), r); err != nil {
			t.Fatal(err)
		}
	}
	gate := func(version uint64) {
		if err := b.says.Set(GateKey("g"), &pb.GateLayers{Gate: "g", Versions: map[uint32]uint64{3: version}}); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "what the gate says", func() bool { return host.Acknowledged("g", 3) == version })
	}
	hosts := func(layer int) (ids []string) {
		for _, r := range host.Replicas(layer, one) {
			ids = append(ids, r.Host)
		}
		slices.Sort(ids)
		return ids
	}
	both := []string{"other", "own"}
	say(b.says, "other", 1)
	say(b.says, "other", 3)
	say(own, "own", 3)
	testkit.Eventually(t, "layer 3", func() bool { return slices.Equal(hosts(3), both) })
	gate(1)
	if got := hosts(1); got != nil {
		t.Errorf("it follows layer 1, where it has nothing: %v", got)
	}
	say(own, "own", 1)
	testkit.Eventually(t, "layer 1, too", func() bool { return slices.Equal(hosts(1), both) && slices.Equal(hosts(3), both) })
	own.mu.Lock()
	delete(own.keys, HostKey(1, "own")) // as when it has ended
	own.mu.Unlock()
	say(own, "third", 3)
	testkit.Eventually(t, "layer 3 alone", func() bool { return hosts(1) == nil && len(hosts(3)) == 3 })
	host.Keys()
	testkit.Eventually(t, "all keys", func() bool { return len(host.Keys()["other"]) == 2 })
	gate(2)
}

// Without an announcer there are no keys of one's own.
func TestNoOwn(t *testing.T) {
	var none *Announcer
	if layers, more := none.layers(); layers != nil || more != nil {
		t.Errorf("%v", layers)
	}
}
