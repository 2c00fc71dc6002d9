package changes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/drain"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// idsOf are the replicas of a service that live and do not leave.
func idsOf(s *top.Snapshot, service string) (ids []string) {
	if s == nil {
		return nil
	}
	for _, m := range s.Members {
		if m.Service == service && m.Ready && !m.Draining {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// While answers are under way, a replica of each service drains, and then a second host: no
// token is another one, the plan has left the hosts by then, and they stay gone.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	count := map[string]int{"tokenizer": 2, "attention": 2, "gate": 2, "expert": 3, "aggregator": 2}
	y := clustertest.Start(t, clustertest.Open(t, goldens.Dir("mixtral")), func(s *cluster.Settings) { s.Count = maps.Clone(count) })
	conn, names, q := y.Conn(t), y.Settings.Node.Names(), compared.Asker(y)
	want := make([][]uint32, 4)
	for i := range want {
		var err error
		if want[i], err = compared.Sampled(t.Context(), q, i); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for i := range want {
		asking.Go(func() {
			for ctx.Err() == nil {
				if got, err := compared.Sampled(t.Context(), q, i); err != nil || !slices.Equal(got, want[i]) {
					t.Errorf("prompt %d: %v, %v, want %v", i, got, err, want[i])
					return
				}
			}
		})
	}
	r := top.NewReader(conn.NATS(), conn.JetStream(), names)
	defer r.Close()
	for _, service := range []string{"expert", "tokenizer", "attention", "gate", "aggregator", "expert"} {
		var here []string
		await := func() { // one may be late
			t.Helper()
			testkit.Eventually(t, fmt.Sprintf("%d of service %s", count[service], service), func() bool {
				now, err := r.Live(t.Context())
				here = idsOf(now, service)
				return err == nil && now.Serving && len(here) == count[service]
			})
		}
		await()
		id := here[0]
		var results []drain.Result
		left, err := drain.Run(t.Context(), drain.Settings{Conn: conn, Names: names, Name: id, Within: testkit.Patience, Tell: func(r drain.Result) { results = append(results, r) }})
		if err != nil || len(results) != 1 || !results[0].Drained || results[0].Replica != id {
			t.Fatalf("draining %s: %+v, %v", id, results, err)
		}
		if here := idsOf(left, service); slices.Contains(here, id) {
			t.Errorf("after %s has drained there are %v", id, here)
		}
		count[service]--
		await()
	}
	stop()
	asking.Wait()
	testkit.Eventually(t, "what is left is ready", func() bool { return y.Pipeline.Ready() == nil })
}
