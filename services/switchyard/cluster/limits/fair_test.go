package limits

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// A tenant who sends twenty requests at once does not hold up another's three, one
// of which fills the context, and of one tenant's own the urgent one goes first.
func TestTenantsShare(t *testing.T) {
	t.Parallel()
	var valve clustertest.Valve
	y := clustertest.Start(t, clustertest.Demo(t), func(s *cluster.Settings) { s.Services.Attention.MaxSequences = 1 }, valve.In)
	logged := watchLog(t, y)
	valve.Shut(t) // what comes meanwhile waits
	var sending sync.WaitGroup
	nc := y.Conn(t).NATS()
	send := func(f schemas.Flow, id string, prompt int) {
		most := int32(8)
		c := client.New(nc, client.Settings{Model: y.Name(), Tenant: f.Tenant, Class: f.Class})
		s, err := c.Prompt(t.Context(), &pb.Prompt{RequestId: id, InputIds: slices.Repeat([]uint32{5}, prompt), MaxTokens: &most, IgnoreEos: true})
		if err != nil {
			t.Error(err)
			return
		}
		sending.Go(func() {
			for _, err := range s.Chunks() {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	hot, few := schemas.Flow{Tenant: "hot"}.OrDefault(), schemas.Flow{Tenant: "few"}.OrDefault()
	send(hot, "long", 400)
	for i := range 20 {
		send(hot, fmt.Sprint("hot-", i), 200)
	}
	send(few, "few-0", 8)
	send(few, "few-whole", 500)
	send(few, "few-1", 8)
	send(schemas.Flow{Tenant: "few", Class: schemas.ClassHigh}, "few-high", 8)
	y.AwaitAttention(t, members.Waiting, 24)
	valve.Open()
	sending.Wait()
	var order []string
	testkit.Eventually(t, "all ends", func() bool {
		order = nil
		for _, e := range logged() {
			if !e.claim {
				order = append(order, e.request)
			}
		}
		return len(order) == 25
	})
	at := func(id string) int { return slices.Index(order, id) }
	// Those of few have less than half of the work, so they end well before hot's.
	for _, id := range []string{"few-0", "few-high", "few-whole", "few-1"} {
		if at(id) > at("hot-15") {
			t.Errorf("%s ended after hot-15: %v", id, order)
		}
	}
	if at("few-high") > at("few-1") || at("few-whole") > at("few-1") || at("hot-8") > at("hot-16") {
		t.Errorf("a tenant's own ended in the order %v", order)
	}
}
