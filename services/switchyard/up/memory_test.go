package up

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

const gib = 1 << 30

// What no flag gives is shared out so that all of it stays below what is left, and experts come first.
func TestShare(t *testing.T) {
	model := func(experts, hosts int64) need {
		return need{backbone: gib, most: 100 * gib, page: 1 << 20, experts: experts, largest: gib / 8, hosts: hosts, autoKV: true, autoExperts: true}
	}
	for _, tc := range []struct {
		name  string
		left  int64
		needs []need
		want  string // kv and budget of each, in MiB
	}{
		{"nobody knows", 0, []need{model(8*gib, 1)}, "64 0"},
		{"room for all", 32 * gib, []need{model(8*gib, 1)}, "20275 0"},
		{"room for one copy of two", 16 * gib, []need{model(8*gib, 2)}, "3430 5145"},
		{"less than all experts", 8 * gib, []need{model(8*gib, 1)}, "1587 4761"},
		{"nothing", gib, []need{model(8*gib, 1)}, "0 0"},
		{"a small model's keys and values", 32 * gib, []need{{most: gib, page: 1, autoKV: true}}, "1024 0"},
		{"attention alone", 32 * gib, []need{{backbone: gib, most: 100 * gib, page: 1, autoKV: true}}, "28467 0"},
		{"two models", 32 * gib, []need{model(4*gib, 1), model(8*gib, 1)}, "7577 0 7577 0"},
		{"beside a small one", 32 * gib, []need{model(8*gib, 1), {most: gib, page: 1, autoKV: true}}, "19251 0 1024 0"},
		{"what flags give goes first", 32 * gib, []need{{backbone: gib, kv: 8 * gib, experts: 30 * gib, largest: gib, hosts: 2, autoExperts: true}}, "8192 10137"},
	} {
		share(tc.left, tc.needs)
		got := ""
		for _, n := range tc.needs {
			got += fmt.Sprintf(" %d %d", n.kv>>20, n.budget>>20)
		}
		if got != " "+tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		left := r.Int64N(64 * gib)
		needs := make([]need, 1+r.IntN(3))
		for i := range needs {
			needs[i] = need{
				backbone: r.Int64N(2 * gib), most: 1 + r.Int64N(99*gib), page: 1 << 20, autoKV: r.IntN(2) > 0,
				experts: r.Int64N(16 * gib), largest: 1 << 20, hosts: r.Int64N(4), autoExperts: true,
			}
		}
		share(left, needs)
		var sum, base int64
		for _, n := range needs {
			base += n.backbone
			sum += n.kv
			if n.budget == 0 {
				sum += n.hosts * n.experts
			} else {
				sum += n.hosts * min(n.budget, n.experts)
			}
		}
		if base+sum > left && sum > 16 { // a byte for each is no limit's opposite
			t.Fatalf("%d of %d: %+v", base+sum, left, needs)
		}
	}
}

// A budget that cannot hold the model is refused with both numbers, whoever chose it.
func TestTooLittleMemory(t *testing.T) {
	m, err := Random("mixtral-1b").open(t.Context(), quietEnv())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	of := lifecycle.Memory{Limit: 2 * gib, By: "the container (memory.max)", Left: gib}
	for _, tc := range []struct {
		name    string
		need    need
		offload string
		alone   bool
		want    string // empty: it is fine
	}{
		{"one byte less on one host", need{experts: 800, largest: 100, hosts: 1, budget: 799}, "", true, "--expert-memory is 799 bytes on each of 1 expert hosts; the experts of model mixtral-1b have 800: give at least 800, more --hosts, or --offload lru"},
		{"on three hosts, whole experts only", need{experts: 800, largest: 100, hosts: 3, budget: 299}, "", true, "--expert-memory is 299 bytes on each of 3 expert hosts"},
		{"just enough on three hosts", need{experts: 800, largest: 100, hosts: 3, budget: 300}, "", true, ""},
		{"no limit", need{experts: 800, largest: 100, hosts: 1}, "", true, ""},
		{"a part is held", need{experts: 800, largest: 100, hosts: 1, budget: 100}, "lru", true, ""},
		{"others have the rest", need{experts: 800, largest: 100, hosts: 1, budget: 100}, "none", false, ""},
		{"what the container leaves", need{experts: 800, largest: 100, hosts: 1, budget: 500, autoExperts: true}, "none", true, "there is no memory for the experts of model mixtral-1b, which have 800 bytes: this process may take 2147483648 bytes by the container (memory.max), of which 1073741824 are left"},
		{"not even an expert", need{experts: 800, largest: 100, hosts: 1, budget: 99, autoExperts: true}, "lru", false, "there is no memory for experts: this process may take 2147483648 bytes by the container (memory.max), of which 1073741824 are left; an expert of model mixtral-1b has 100: give it more"},
		{"nothing for keys and values", need{autoKV: true, kv: 9, page: 10, backbone: 7}, "", true, "there is no memory for keys and values: this process may take 2147483648 bytes by the container (memory.max), of which 1073741824 are left; model mixtral-1b has 7 beside them, and a page of them 10"},
	} {
		s := cluster.Services{}
		s.Expert.Offload = tc.offload
		err := tc.need.check(Part{Services: &s, Model: m, Alone: tc.alone}, of)
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
