package scale

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// loads are experts with these loads, of 10 bytes each.
func loads(rows ...float64) []Expert {
	es := make([]Expert, len(rows))
	for i, r := range rows {
		es[i] = Expert{ID: uint32(i), Load: r, Bytes: 10}
	}
	return es
}

func replicas(d Decision) []int {
	n := make([]int, len(d.Experts))
	for i, e := range d.Experts {
		n[i] = e.Replicas
	}
	return n
}

// policies are all there are.
var policies = map[string]Policy{"moeless": MoEless, "eplb": EPLB, "reactive": Reactive, "static": Static, "oracle": Oracle}

func TestPolicies(t *testing.T) {
	tests := []struct {
		name     string
		policy   Policy
		experts  []Expert
		settings Settings
		want     []int
		cv       float64
		reason   string
	}{
		{"balanced", MoEless, loads(8, 8, 8), Settings{CV: 0.2, MemoryCap: 100}, []int{1, 1, 1}, 0, "CV 0 is within the threshold 0.2"},
		{"at the threshold", MoEless, loads(8, 12), Settings{CV: 0.2, MemoryCap: 100}, []int{1, 1}, 0.2, "within"},
		{"one straggler", MoEless, loads(45, 10, 10), Settings{CV: 0.2, MemoryCap: 100}, []int{3, 1, 1}, math.Sqrt(6) / 13, "2 replicas added: CV from 0.7615 to 0.1884"},
		{"cap just enough", MoEless, loads(45, 10, 10), Settings{CV: 0.2, MemoryCap: 20}, []int{3, 1, 1}, math.Sqrt(6) / 13, ""},
		{"cap", MoEless, loads(45, 10, 10), Settings{CV: 0.2, MemoryCap: 19}, []int{2, 1, 1}, 6.25 / 16.25, "1 replicas added"},
		{"not the others in its place", MoEless, []Expert{{ID: 0, Load: 45, Bytes: 20}, {ID: 1, Load: 20, Bytes: 1}, {ID: 2}}, Settings{CV: 0.2, MemoryCap: 19}, []int{1, 1, 1}, 0, "takes 20 bytes, and 19 of the cap's 19 are left"},
		{"cap of nothing", MoEless, loads(30, 10), Settings{CV: 0.2}, []int{1, 1}, 0.5, "takes 10 bytes, and 0 of the cap's 0 are left"},
		{"replicas of one", MoEless, loads(40, 10), Settings{CV: 0.2, MemoryCap: 100, MaxReplicas: 2}, []int{2, 1}, math.Sqrt(200.0/9) / (50.0 / 3), "all of 2 replicas"},
		{"lower id first", MoEless, loads(0, 9, 9), Settings{CV: 0.2, MemoryCap: 10}, []int{1, 2, 1}, 0, ""},
		{"no load", MoEless, loads(0, 0), Settings{MemoryCap: 100}, []int{1, 1}, 0, ""},
		{"static", Static, loads(30, 10, 10), Settings{CV: 0.2, MemoryCap: 100}, []int{1, 1, 1}, math.Sqrt(800.0/9) / (50.0 / 3), ""},
		{"eplb fills all slots", EPLB, loads(30, 10, 10), Settings{CV: 0.2, MemoryCap: 45}, []int{4, 2, 1}, 0, ""},
		{"eplb in balance", EPLB, loads(8, 8), Settings{CV: 0.2, MemoryCap: 15}, []int{2, 1}, 0, ""},
		{"eplb passes over", EPLB, loads(30, 10), Settings{MemoryCap: 30, MaxReplicas: 2}, []int{2, 2}, 0, ""},
		{"reactive", Reactive, loads(30, 20, 10, 0), Settings{MemoryCap: 100}, []int{2, 2, 1, 1}, 0, "in proportion"},
		{"reactive under a cap", Reactive, loads(30, 29, 0, 1), Settings{MemoryCap: 10}, []int{2, 1, 1, 1}, 0, ""},
		{"reactive in balance", Reactive, loads(0.7, 0.7, 0.7), Settings{MemoryCap: 100}, []int{1, 1, 1}, 0, ""},
		{"oracle", Oracle, loads(30, 0), Settings{}, []int{1, 1}, 0, "against the gate's choice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.policy(tt.experts, tt.settings)
			if got := replicas(d); !slices.Equal(got, tt.want) || !strings.Contains(d.Reason, tt.reason) {
				t.Errorf("got %v, %q; want %v, %q", got, d.Reason, tt.want, tt.reason)
			}
			if tt.cv != 0 && math.Abs(d.CV-tt.cv) > 1e-12 {
				t.Errorf("CV %g, want %g", d.CV, tt.cv)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name     string
		experts  []Expert
		settings Settings
		want     string
	}{
		{"good", loads(1, 0), Settings{}, ""},
		{"none", nil, Settings{}, "no experts"},
		{"twice", append(loads(1), loads(1)...), Settings{}, "expert 0 is named twice"},
		{"negative", loads(1, -1), Settings{}, "expert 1 has load -1"},
		{"NaN", loads(math.NaN()), Settings{}, "expert 0 has load NaN"},
		{"endless", loads(math.Inf(1)), Settings{}, "load +Inf"},
		{"CV", loads(1), Settings{CV: math.NaN()}, "cv_threshold is NaN"},
		{"replicas", loads(1), Settings{MaxReplicas: -1}, "max_replicas is -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(tt.experts, tt.settings)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A replica of no bytes and a threshold that cannot be met end all the same.
func TestEnds(t *testing.T) {
	experts := []Expert{{ID: 0, Load: 3}, {ID: 1, Load: 1}, {ID: 2}}
	for name, policy := range policies {
		d := policy(experts, Settings{MemoryCap: math.MaxUint64})
		if n := d.Experts[0].Replicas; n < 1 || n > mostReplicas {
			t.Errorf("%s: %d replicas", name, n)
		}
	}
}

func draw(t *rapid.T) ([]Expert, Settings) {
	ids := rapid.SliceOfNDistinct(rapid.Uint32(), 1, 24, rapid.ID).Draw(t, "ids")
	experts := make([]Expert, len(ids))
	for i, id := range ids {
		experts[i] = Expert{ID: id, Load: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-3, 1e4), rapid.Map(rapid.IntRange(0, 20), func(n int) float64 { return float64(n) })).Draw(t, "load"),
			Bytes: rapid.Uint64Range(50, 1000).Draw(t, "bytes")}
	}
	return experts, Settings{
		CV: rapid.Float64Range(0, 1).Draw(t, "cv"), MemoryCap: rapid.Uint64Range(0, 20_000).Draw(t, "cap"),
		MaxReplicas: rapid.IntRange(0, 8).Draw(t, "most"),
	}
}

// Whatever the policy: every expert is there once, in order of ids, with at
// least one replica and at most as many as allowed; the cap holds; loads are
// conserved; the CV is that of all replicas; the order of the input is nothing.
func TestProperties(t *testing.T) {
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				experts, s := draw(t)
				if err := Check(experts, s); err != nil {
					t.Fatal(err)
				}
				d := policy(experts, s)
				checkDecision(t, experts, s, d, name == "oracle")
				if again := policy(rapid.Permutation(experts).Draw(t, "order"), s); !reflect.DeepEqual(d, again) {
					t.Fatalf("%v\n%v", d, again)
				}
			})
		})
	}
}

func checkDecision(t *rapid.T, experts []Expert, s Settings, d Decision, moved bool) {
	var all []float64
	var bytes uint64
	before, after := 0.0, 0.0
	for i, e := range byID(experts) {
		got := d.Experts[i]
		if got.ID != e.ID || got.Replicas < 1 || s.MaxReplicas > 0 && got.Replicas > s.MaxReplicas {
			t.Fatalf("expert %d: %+v", e.ID, got)
		}
		if !moved && !near(got.LoadEach*float64(got.Replicas), e.Load) {
			t.Fatalf("expert %d of load %g: %+v", e.ID, e.Load, got)
		}
		for range got.Replicas {
			all = append(all, got.LoadEach)
		}
		bytes += uint64(got.Replicas-1) * e.Bytes
		before, after = before+e.Load, after+got.LoadEach*float64(got.Replicas)
	}
	if !near(before, after) || bytes != d.AddedBytes || bytes > s.MemoryCap || !near(d.CV, deviation(all)) || d.Reason == "" {
		t.Fatalf("load %g of %g, %d bytes, CV %g: %+v", after, before, bytes, deviation(all), d)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(b)) }

func deviation(xs []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range xs {
		sum += x
	}
	mean := sum / float64(len(xs))
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	if mean == 0 {
		return 0
	}
	return math.Sqrt(squares/float64(len(xs))) / mean
}

// MoEless, §4.2: algorithm 1, line by line with a list in place of the heap.
func TestMoElessIsAlgorithm1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		experts, s := draw(t)
		s.MaxReplicas = 0
		if got, want := replicas(MoEless(experts, s)), algorithm1(byID(experts), s); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func algorithm1(experts []Expert, s Settings) []int {
	n := make([]int, len(experts))
	for i := range n {
		n[i] = 1 // line 1
	}
	var alloc uint64 // line 2
	for {
		var each []float64
		top := 0
		for i, e := range experts {
			for range n[i] {
				each = append(each, e.Load/float64(n[i]))
			}
			if e.Load/float64(n[i]) > experts[top].Load/float64(n[top]) {
				top = i // line 4
			}
		}
		// Line 3. Rounding may differ where the CV is the threshold.
		if deviation(each) <= s.CV+1e-12 || alloc+experts[top].Bytes > s.MemoryCap {
			return n
		}
		n[top]++ // lines 5 and 6
		alloc += experts[top].Bytes
	}
}

// Skewed are experts as a gate loads them: the n-th by Zipf's law, shuffled.
func skewed(n int) []Expert {
	experts := make([]Expert, n)
	for i := range experts {
		experts[i] = Expert{ID: uint32(i), Load: 4096 / math.Pow(float64((i*37)%n+1), 0.8), Bytes: 44 << 20}
	}
	return experts
}

// A layer of DeepSeek-V3's size with replicas on 1,000 hosts.
func BenchmarkScale(b *testing.B) {
	for _, name := range []string{"moeless", "eplb", "reactive"} {
		for _, n := range []int{8, 64, 256} {
			b.Run(fmt.Sprintf("policy=%s/experts=%d/hosts=1000", name, n), func(b *testing.B) {
				experts := skewed(n)
				s := Settings{CV: 0.2, MemoryCap: 1000 * 44 << 20, MaxReplicas: 1000}
				for b.Loop() {
					policies[name](experts, s)
				}
				b.ReportMetric(float64(n)+float64(policies[name](experts, s).AddedBytes/(44<<20)), "replicas")
			})
		}
	}
}
