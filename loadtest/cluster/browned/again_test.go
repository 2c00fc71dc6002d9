package browned

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/rerun"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/drain"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

const (
	crowdSize   = 5
	crowdTokens = 60
)

// Requests that travel together, so that what becomes of their rows depends on one another, are
// computed again alone from their logs: with pages for a few of them, so that others step aside and
// read their prompts and answers anew; and while each service loses a replica.
func TestRerunIsIdentical(t *testing.T) {
	dir := goldens.Dir("qwen2_moe")
	for _, tc := range testkit.Some([]struct {
		name  string
		pages int // of attention; 0: enough
		count map[string]int
	}{
		{"aside", 6, nil},
		{"drained", 0, map[string]int{"tokenizer": 1, "attention": 2, "gate": 2, "expert": 2, "aggregator": 2}},
	}) {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := clustertest.Open(t, dir)
			folder := clustertest.Students(t, m, false, 4)
			var valve clustertest.Valve
			y := start(t, m, folder, setting{way: 4, strategy: brownout.Partial, prefill: 300_000, decode: 200_000}, clustertest.Context(128), func(s *cluster.Settings) {
				if tc.count != nil {
					s.Count = tc.count
				}
				if tc.pages > 0 {
					clustertest.Pages(tc.pages)(s)
				}
			}, valve.In)
			awaitWarm(t, y)
			valve.Shut(t)
			tokens := crowd(t, y, valve.Open, func() {
				for _, service := range []string{"attention", "gate", "aggregator", "expert"} {
					if tc.count != nil {
						leave(t, y, service)
					}
				}
			})
			if tc.pages > 0 && counter(t, y, "switchyard_preemptions_total") == 0 {
				t.Error("nobody stepped aside")
			}
			degraded := 0
			for i, want := range tokens {
				v := again(t, y, dir, folder, requestOf(i), want)
				degraded += v.Degraded
			}
			if degraded == 0 {
				t.Error("nothing was degraded")
			}
		})
	}
}

func requestOf(i int) string { return fmt.Sprintf("crowd-%d", i) }

// crowd asks for everything at once; open is called when all are under way, and then something else when
// all have begun to answer.
func crowd(t *testing.T, y clustertest.Cluster, open, then func()) [][]uint32 {
	t.Helper()
	tokens, most := make([][]uint32, crowdSize), int32(crowdTokens)
	var all, begun sync.WaitGroup
	begun.Add(crowdSize)
	for i := range tokens {
		chunks := y.Ask(t, &pb.Prompt{
			RequestId: requestOf(i), InputIds: compared.PromptIDs(i, 9+i, y.Settings.Node.Shared.Model.Spec.Vocab), MaxTokens: &most, IgnoreEos: true,
		})
		all.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for c, err := range chunks {
				if err != nil {
					t.Error(err)
				}
				tokens[i] = append(tokens[i], c.GetTokenIds()...)
				if len(tokens[i]) > 2 {
					first()
				}
			}
		})
	}
	y.AwaitAttention(t, members.Active, crowdSize)
	open()
	begun.Wait()
	then()
	all.Wait()
	return tokens
}

// again computes a logged request again, and wants its tokens.
func again(t *testing.T, y clustertest.Cluster, dir, folder, request string, want []uint32) *rerun.Verdict {
	t.Helper()
	m, p := clustertest.Open(t, dir), pool.New(1)
	defer func() { p.Close(); _ = m.Close() }() // it is only read
	set, err := united.OpenAll(folder, m)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = set.Close() }()
	l, err := rerun.Read(logOf(t, y, m, request), &m.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.Tokens, want) {
		t.Errorf("%s: the log has %v, the producer heard %v", request, l.Tokens, want)
	}
	v, err := rerun.Run(t.Context(), rerun.Settings{Model: m, Pool: p, Wire: tensor.BF16, United: set}, l)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Identical || v.Tokens != crowdTokens {
		t.Errorf("%s: %v", request, v)
	}
	return v
}

// logOf reads a request's log.
func logOf(t *testing.T, y clustertest.Cluster, m *model.Model, request string) []tokenlog.Entry {
	t.Helper()
	id, err := deployment.ModelIdentity(m)
	if err != nil {
		t.Fatal(err)
	}
	log := tokenlog.New(y.Conn(t), y.Settings.Node.Names(), tokenlog.Settings{
		Rules: tokenlog.Rules{Model: id.Model, Vocab: m.Spec.Vocab, Positions: m.Spec.LongestRequest(), Hidden: m.Spec.Hidden},
	})
	entries, _, err := log.Fetch(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// leave has a replica of a service drain.
func leave(t *testing.T, y clustertest.Cluster, service string) {
	t.Helper()
	conn, names := y.Conn(t), y.Settings.Node.Names()
	r := top.NewReader(conn.NATS(), conn.JetStream(), names)
	defer r.Close()
	id := ""
	testkit.Eventually(t, "a replica of "+service, func() bool { // which may be late
		s, err := r.Live(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.Members, func(m top.Member) bool { return m.Service == service && m.Ready && !m.Draining })
		if i >= 0 {
			id = s.Members[i].ID
		}
		return i >= 0
	})
	if _, err := drain.Run(t.Context(), drain.Settings{Conn: conn, Names: names, Name: id, Within: testkit.Patience, Tell: func(drain.Result) {}}); err != nil {
		t.Fatal(err)
	}
}

// counter is a counter's value in this process.
func counter(t *testing.T, y clustertest.Cluster, name string) float64 {
	t.Helper()
	all, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// Stamps of bundles and ways that no host has change nothing, and are counted.
func TestForgedStamps(t *testing.T) {
	dir := goldens.Dir("qwen2_moe")
	want := compared.Direct(t, dir, tensor.BF16)
	for name, forge := range map[string]func(*pb.Stamp){
		"bundle": func(s *pb.Stamp) { s.Bundle++ },
		"way":    func(s *pb.Stamp) { s.Way = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := clustertest.Open(t, dir)
			folder := clustertest.Students(t, m, false, 2)
			y := clustertest.Start(t, m, clustertest.Context(compared.Positions), clustertest.Joined(tensor.BF16, schemas.HopsUnacked), func(c *cluster.Settings) {
				s := setting{way: 2, strategy: brownout.Partial}.stamp(t, m, folder)
				forge(s)
				c.Services.Expert.United = folder
				obey(c, s, nil)
			})
			compared.Same(t, y, want.Tokens, "by a forged stamp")
			if slots(t, y, "cold") == 0 || slots(t, y, "united") > 0 {
				t.Errorf("%v slots were cold, %v united", slots(t, y, "cold"), slots(t, y, "united"))
			}
		})
	}
}
