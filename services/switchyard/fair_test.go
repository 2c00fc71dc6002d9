package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// A tenant who sends twenty requests at once does not hold up another's three, one
// of which fills the context, and of one tenant's own the urgent one goes first.
func TestTenantsShare(t *testing.T) {
	t.Parallel()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	y := openYardOf(t, m, cluster.OneEach(), func(up *UpCmd) { up.MaxSequences = 1 })
	ended := y.watchEnds(t)
	var sending sync.WaitGroup
	nc := y.connect(t).NATS()
	send := func(f schemas.Flow, id string, prompt int) {
		most := int32(8)
		c := client.New(nc, client.Settings{Model: y.name(), Tenant: f.Tenant, Class: f.Class})
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
	send(hot, "long", 400) // what comes meanwhile waits
	for i := range 20 {
		send(hot, fmt.Sprint("hot-", i), 200)
	}
	send(few, "few-0", 8)
	send(few, "few-whole", 500)
	send(few, "few-1", 8)
	send(schemas.Flow{Tenant: "few", Class: schemas.ClassHigh}, "few-high", 8)
	sending.Wait()
	var order []string
	testkit.Eventually(t, "all ends", func() bool { order = ended(); return len(order) == 25 })
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

// watchEnds returns the requests that have ended, in the order of the log.
func (y testYard) watchEnds(t *testing.T) func() []string {
	t.Helper()
	var mu sync.Mutex
	var order []string
	nc := y.connect(t).NATS()
	_, err := nc.Subscribe(schemas.NewSubjects(schemas.DefaultPrefix, y.name()).AnyToken(), func(m *nats.Msg) {
		if r := (&pb.Record{}); proto.Unmarshal(m.Data, r) == nil && r.GetTerminal() != nil {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, schemas.LastToken(m.Subject))
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(order)
	}
}

// The bounds that an operator sets for a tenant reach who admits.
func TestTenantFlag(t *testing.T) {
	t.Parallel()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	y := openYardOf(t, m, cluster.OneEach(), func(up *UpCmd) { up.Tenant = []string{"acme:tokens=1"} })
	ask := func(id string) error {
		most := int32(40)
		c := client.New(y.connect(t).NATS(), client.Settings{Model: y.name(), Tenant: "acme"})
		s, err := c.Prompt(t.Context(), &pb.Prompt{RequestId: id, InputIds: slices.Repeat([]uint32{5}, 30), MaxTokens: &most, IgnoreEos: true})
		if err != nil {
			return err
		}
		for chunk, err := range s.Chunks() {
			if err != nil {
				return err
			}
			if failed := client.Failure(chunk); failed != nil {
				return failed
			}
		}
		return nil
	}
	if err := ask("one"); err != nil {
		t.Fatal(err)
	}
	// At a token a minute it has its 70 back after more than an hour, however slow this machine is.
	var refused *client.Error
	if err := ask("two"); !errors.As(err, &refused) || refused.Code != client.CodeOverloaded || refused.RetryAfter < time.Second || !strings.Contains(refused.Message, "its quota of tokens") {
		t.Errorf("got %v, want that the tenant has had its tokens", err)
	}
}
