// Package limits tests what pipelines do at their limits: of pages of keys and values, of
// positions, of sequences at once, of the token log; and that they leave nothing behind.
package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/attention/queue"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// A prefill that takes longer than a sequence's claim lasts stays with its
// owner while siblings have nothing to do: its progress renews the claim.
func TestSlowPrefillStays(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
	t.Parallel()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Vocab = 200_000 // scores are what takes long
	y := clustertest.Start(t, m, func(s *cluster.Settings) { s.Count["attention"], s.Services.Attention.MaxRows = 3, 2048 })
	logged := watchLog(t, y)
	positions := 500
	if testkit.Race { // each takes ten times as long
		positions = 60
	}
	for try := range 5 {
		stood := testkit.Standing(t)
		none, scores, id := int32(0), 0, fmt.Sprint("slow-", try)
		for c, err := range y.Ask(t, &pb.Prompt{RequestId: id, InputIds: make([]uint32, positions), MaxTokens: &none, Score: "logprobs"}) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Score != nil {
				scores++
			}
		}
		claims := 0
		for _, e := range logged() {
			if e.claim && e.request == id {
				claims++
			}
		}
		if scores != positions {
			t.Errorf("%d scores, want %d", scores, positions)
		}
		switch longest := stood(); {
		case claims == 1:
			return
		case longest < queue.AckWait/8:
			t.Fatalf("%d claims, want 1, on a machine that ran on, but for %v", claims, longest)
		}
	}
	t.Skip("whenever this was tried the machine stood still, and let claims lapse")
}

// filling is a prompt that needs so many pages.
func filling(id string, n int) *pb.Prompt {
	one := int32(1)
	return &pb.Prompt{RequestId: id, InputIds: slices.Repeat([]uint32{5}, n*cpu.PagePositions-1), MaxTokens: &one, IgnoreEos: true}
}

// A request that needs all pages is served under a stream of small ones.
func TestLargeRequestAmongSmall(t *testing.T) {
	t.Parallel()
	y := clustertest.Start(t, clustertest.Demo(t), clustertest.Pages(4))
	logged := watchLog(t, y)
	const limit = 200
	small, stop := make(chan error, limit), make(chan struct{})
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for n := 0; n < limit/8; n++ {
				select {
				case <-stop:
					return
				default:
					small <- y.Answer(t, filling(fmt.Sprintf("small-%d-%d", i, n), 1))
				}
			}
		})
	}
	if err := <-small; err != nil { // they are under way
		t.Error(err)
	}
	if err := y.Answer(t, filling("large", 4)); err != nil {
		t.Error(err)
	}
	close(stop)
	clients.Wait()
	if n := claimedWithin(logged(), "large"); n > limit/4 { // of some kvcache.MaxPassed, and others wait behind it
		t.Errorf("%d of %d small ones passed it", n, limit)
	}
}

// claimedWithin is how many other requests were claimed between a request's claim and its end.
func claimedWithin(all []entry, request string) (n int) {
	claimed := false
	for _, e := range all {
		switch {
		case e.request == request && e.claim:
			claimed = true
		case e.request == request:
			return n
		case claimed && e.claim:
			n++
		}
	}
	return n
}

// entry is a claim of a request, or its end.
type entry struct {
	request string
	claim   bool
}

// watchLog returns the claims and the ends of requests in the order of the log.
func watchLog(t *testing.T, y clustertest.Cluster) func() []entry {
	t.Helper()
	var mu sync.Mutex
	var all []entry
	nc := y.Conn(t).NATS()
	_, err := nc.Subscribe(schemas.NewSubjects(schemas.DefaultPrefix, y.Name()).AnyToken(), func(m *nats.Msg) {
		r := &pb.Record{}
		if proto.Unmarshal(m.Data, r) == nil && (r.GetClaim() != nil || r.GetTerminal() != nil) {
			mu.Lock()
			all = append(all, entry{schemas.LastToken(m.Subject), r.GetClaim() != nil})
			mu.Unlock()
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() []entry {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// What a replica cannot hold it leaves to one that can; what none can hold is
// refused at acceptance; what none can hold any more ends after a while.
func TestCapacity(t *testing.T) {
	t.Parallel()
	y := clustertest.Start(t, clustertest.Demo(t), clustertest.Pages(2))
	awaitRefusal(t, y, "early", 3, "need 3 KV pages", "has 2")
	leave := addAttention(t, y, 6)
	for i := range 5 { // each may come to either of them first
		awaitAnswer(t, y, fmt.Sprint("held-", i), true)
	}
	awaitRefusal(t, y, "too-large", 7, "need 7 KV pages", "has 6")
	leave()
	awaitAnswer(t, y, "left", false)
}

// The same of replicas with another --max-model-len than the tokenizer's.
func TestContexts(t *testing.T) {
	t.Parallel()
	y := clustertest.Start(t, clustertest.Demo(t), func(s *cluster.Settings) { s.Services.Attention.MaxModelLen = 2 * cpu.PagePositions })
	awaitRefusal(t, y, "early", 3, "95 prompt and 1 new tokens do not fit the longest context", "replica, 64:")
	leave := addAttention(t, y, 6)
	for i := range 9 { // each may come to either of them first
		awaitAnswer(t, y, fmt.Sprint("long-", i), true)
	}
	leave()
	awaitAnswer(t, y, "left", false)
}

// awaitRefusal asks for what no replica can hold until that is refused by what the largest one can:
// while a replica is late to say that it is here, it is refused otherwise. It is never answered.
func awaitRefusal(t *testing.T, y clustertest.Cluster, name string, pages int, says ...string) {
	t.Helper()
	asked := 0
	testkit.Eventually(t, fmt.Sprintf("a refusal that says %q", says), func() bool {
		asked++
		err := y.Answer(t, filling(fmt.Sprint(name, "-", asked), pages))
		if err == nil {
			t.Fatalf("%d pages are answered", pages)
		}
		var refused *client.Error
		return errors.As(err, &refused) && refused.Code == client.CodeBadRequest &&
			!slices.ContainsFunc(says, func(s string) bool { return !strings.Contains(refused.Message, s) })
	})
}

// awaitAnswer asks for 3 pages until that is answered, or refused: a replica may be late to say that
// it is here.
func awaitAnswer(t *testing.T, y clustertest.Cluster, name string, answered bool) {
	t.Helper()
	asked := 0
	testkit.Eventually(t, fmt.Sprintf("answered: %v", answered), func() bool {
		asked++
		return (y.Answer(t, filling(fmt.Sprint(name, "-", asked), 3)) == nil) == answered
	})
}

// addAttention starts another replica with so many KV pages; leave stops it.
func addAttention(t *testing.T, y clustertest.Cluster, n int) (leave func()) {
	t.Helper()
	r, err := y.Settings.Node.Connect(t.Context(), "attention")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Conn.Close)
	d, err := y.Settings.Node.Deploy(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s := attention.New(d, attention.Config{KVBytes: clustertest.PageBytes(d.Model, n), MaxSequences: 8, MaxRows: 64, Microbatches: 1})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	leave = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(leave)
	return leave
}
