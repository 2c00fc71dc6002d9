package admission

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/schemas"
)

// crowd is so many sequences of a flow that always have a row for a step.
type crowd struct {
	flow      schemas.Flow
	weight    float64
	sequences int
}

// step gives one step's rows, at least so many, and says how many each has.
func step(s *Shares, all []crowd, least int) map[schemas.Flow]int {
	s.Begin()
	flows := map[schemas.Flow]*Flow{}
	for _, c := range all {
		for range c.sequences {
			flows[c.flow] = s.Want(c.flow, c.weight, 1, false)
		}
	}
	shared := s.Divide(least)
	rows := map[schemas.Flow]int{}
	for _, c := range all {
		n := c.sequences
		if shared {
			n = flows[c.flow].Grant(n)
		}
		flows[c.flow].Take(n)
		rows[c.flow] += n
	}
	return rows
}

func runSteps(s *Shares, all []crowd, least, steps int) map[schemas.Flow]int {
	sum := map[schemas.Flow]int{}
	for range steps {
		for f, n := range step(s, all, least) {
			sum[f] += n
		}
	}
	return sum
}

// However many sequences tenants have, they have rows by weight once they are too many for what a step may
// have at least; within a tenant, classes by theirs. A tenant alone has all.
func TestSharesByWeight(t *testing.T) {
	normal := func(tenant string, weight float64, sequences int) crowd {
		return crowd{of(tenant, schemas.ClassNormal), weight, sequences}
	}
	for _, tc := range []struct {
		name  string
		all   []crowd
		least int
		want  []float64 // rows a step
	}{
		{"one tenant", []crowd{normal("a", 1, 128)}, 4, []float64{128}},
		{"weights 1, 1, 8", []crowd{normal("a", 1, 32), normal("b", 1, 32), normal("c", 8, 32)}, 4, []float64{4, 4, 32}},
		{"of few sequences", []crowd{normal("a", 1, 4), normal("b", 1, 4), normal("c", 8, 4)}, 4, []float64{0.5, 0.5, 4}},
		{"many beside one", []crowd{normal("a", 1, 128), normal("b", 1, 1)}, 4, []float64{3, 1}},
		{"many beside one of weight 100", []crowd{normal("a", 1, 128), normal("b", 100, 1)}, 2, []float64{1, 1}},
		{"a row costs nothing", []crowd{normal("a", 1, 128), normal("b", 1, 1)}, 256, []float64{128, 1}},
		{"weights that are none", []crowd{normal("a", math.NaN(), 8), normal("b", -1, 8), normal("c", 0, 8)}, 4, []float64{8, 8, 8}},
		{"a weight without end", []crowd{normal("a", math.Inf(1), 8), normal("b", 1, 8)}, 8, []float64{8, 0}},
		{"classes", []crowd{{of("a", schemas.ClassHigh), 1, 16}, {of("a", schemas.ClassLow), 1, 16}, {of("a", schemas.ClassNormal), 1, 16}}, 4, []float64{16, 4, 8}},
		{
			"classes of one tenant have what another one has",
			[]crowd{{of("a", schemas.ClassHigh), 1, 30}, {of("a", schemas.ClassLow), 1, 30}, normal("b", 1, 30)}, 4,
			[]float64{24, 6, 30},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const steps = 1000
			s := &Shares{}
			rows := runSteps(s, tc.all, tc.least, steps)
			for i, c := range tc.all {
				if got := float64(rows[c.flow]) / steps; math.Abs(got-tc.want[i]) > 0.05 {
					t.Errorf("%v has %.2f rows a step, want %.2f", c.flow, got, tc.want[i])
				}
			}
		})
	}
}

// Who did nothing has saved nothing up, and who had all is not made to wait for that.
func TestSharesAfterIdleness(t *testing.T) {
	s := &Shares{}
	a, b := crowd{of("a", schemas.ClassNormal), 1, 32}, crowd{of("b", schemas.ClassNormal), 1, 32}
	runSteps(s, []crowd{a}, 4, 10_000)
	first := runSteps(s, []crowd{a, b}, 4, 10)
	if n := first[a.flow]; n < 280 || n > 320 || first[b.flow] < 280 {
		t.Errorf("%v rows of ten steps of 64", first)
	}
	runSteps(s, []crowd{b}, 4, 10_000)
	first = runSteps(s, []crowd{a, b}, 4, 10)
	if n := first[b.flow]; n < 280 || n > 320 || first[a.flow] < 280 {
		t.Errorf("%v rows of ten steps of 64", first)
	}
}

// However their virtual times stand: somebody gets a row of those that have none in flight, nobody gets more
// than he wants, and a flow that waits has rows in the end.
func TestSharesNeverStop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, had := &Shares{}, map[schemas.Flow]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			all := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) crowd {
				f := of(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "tenant")), rapid.SampledFrom(schemas.Classes).Draw(t, "class"))
				return crowd{f, rapid.SampledFrom([]float64{0, 1, 8, 100, 1e-9, 1e9}).Draw(t, "weight"), rapid.IntRange(1, 40).Draw(t, "sequences")}
			}), 1, 6, func(c crowd) schemas.Flow { return c.flow }).Draw(t, "crowds")
			rows, sum := step(s, all, rapid.IntRange(0, 20).Draw(t, "least")), 0
			for _, c := range all {
				if rows[c.flow] < 0 || rows[c.flow] > c.sequences {
					t.Fatalf("%d rows for %d sequences", rows[c.flow], c.sequences)
				}
				sum += rows[c.flow]
				had[c.flow] += rows[c.flow]
			}
			if sum == 0 {
				t.Fatalf("no row for anybody of %v", all)
			}
		}
	})
}

// Tenants whose requests come and go at one rate share steps of nearly all of them: fairness costs hardly any
// throughput where nobody takes more than others.
func TestSharesOfEquals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	throughput := func(least int) float64 {
		s, left, gap := &Shares{}, [32]int{}, [32]int{}
		tokens, seconds := 0, 0.0
		for range 20_000 {
			var all []crowd
			for tenant := range 8 {
				c := crowd{of(fmt.Sprint(tenant), schemas.ClassNormal), 1, 0}
				for i := range 4 {
					if gap[4*tenant+i] == 0 {
						c.sequences++
					}
				}
				if c.sequences > 0 {
					all = append(all, c)
				}
			}
			rows := step(s, all, least)
			for i := range 32 {
				switch f := of(fmt.Sprint(i/4), schemas.ClassNormal); {
				case gap[i] > 0:
					if gap[i]--; gap[i] == 0 {
						left[i] = 20 + random.IntN(100)
					}
				case rows[f] > 0:
					rows[f]--
					tokens++
					if left[i]--; left[i] <= 0 {
						gap[i] = 1 + random.IntN(10)
					}
				}
			}
			n := 0
			for _, c := range all {
				n += c.sequences
			}
			seconds += 2.5 + float64(n-sumOf(rows))
		}
		return float64(tokens) / seconds
	}
	if shared, all := throughput(4), throughput(256); shared < 0.95*all {
		t.Errorf("%.3f tokens a row's time; %.3f without shares", shared, all)
	}
}

func sumOf(rows map[schemas.Flow]int) (n int) {
	for v := range maps.Values(rows) {
		n += v
	}
	return n
}

// Names may be invented: those that do nothing are forgotten.
func TestSharesForget(t *testing.T) {
	s := &Shares{}
	for i := range 3 * maxFlows {
		step(s, []crowd{{of(fmt.Sprint(i), schemas.ClassNormal), 1, 1}, {of("a", schemas.ClassNormal), 1, 9}}, 2)
	}
	if len(s.flows) > maxFlows {
		t.Errorf("%d flows are remembered", len(s.flows))
	}
	if f := s.Want(schemas.CanaryFlow(), 1, 1, false); f != nil || f.Grant(3) != 3 {
		t.Error("the services' own requests have what they need")
	}
}
