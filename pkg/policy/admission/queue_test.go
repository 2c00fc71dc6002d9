package admission

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/schemas"
)

func of(tenant string, class schemas.Class) schemas.Flow {
	return schemas.Flow{Tenant: tenant, Class: class}
}

// drain takes everybody out in order.
func drain(q *Queue[string]) (order []string) {
	for r, ok := q.Next(); ok; r, ok = q.Next() {
		order = append(order, r.Who)
	}
	return order
}

func TestOrder(t *testing.T) {
	type request = Request[string]
	normal := func(who, tenant string, work, arrived float64) request {
		return request{Who: who, Flow: of(tenant, schemas.ClassNormal), Work: work, Arrived: arrived}
	}
	for _, tc := range []struct {
		name string
		join []request
		want string
	}{
		{"none", nil, "[]"},
		{"as they came", []request{normal("1", "a", 9, 0), normal("2", "a", 1, 1), normal("3", "a", 5, 2)}, "[1 2 3]"},
		{"tenants in turn", []request{normal("a1", "a", 1, 0), normal("a2", "a", 1, 0), normal("a3", "a", 1, 0), normal("b1", "b", 1, 9), normal("b2", "b", 1, 9)}, "[a1 b1 a2 b2 a3]"},
		{"by work", []request{normal("a1", "a", 3, 0), normal("a2", "a", 3, 0), normal("b1", "b", 1, 0), normal("b2", "b", 1, 0), normal("b3", "b", 1, 0), normal("b4", "b", 1, 0)}, "[a1 b1 b2 b3 a2 b4]"},
		{"a large one has its turn, and pays then", []request{normal("a", "a", 100, 0), normal("b1", "b", 1, 0), normal("b2", "b", 1, 0), normal("c", "c", 1, 0)}, "[a b1 c b2]"},
		{"by weight", []request{
			{Who: "a1", Flow: of("a", schemas.ClassNormal), Work: 2, Weight: 2}, {Who: "a2", Flow: of("a", schemas.ClassNormal), Work: 2, Weight: 2},
			{Who: "a3", Flow: of("a", schemas.ClassNormal), Work: 2, Weight: 2}, normal("b1", "b", 2, 0), normal("b2", "b", 2, 0),
		}, "[a1 b1 a2 a3 b2]"},
		{"by urgency", []request{
			{Who: "low", Flow: of("a", schemas.ClassLow)}, {Who: "normal", Flow: of("a", schemas.ClassNormal), Arrived: 1}, {Who: "high", Flow: of("a", schemas.ClassHigh), Arrived: 2},
		}, "[high normal low]"},
		{"and by age", []request{
			{Who: "high", Flow: of("a", schemas.ClassHigh), Arrived: 2*Lead + 2}, {Who: "normal", Flow: of("a", schemas.ClassNormal), Arrived: Lead + 1}, {Who: "low", Flow: of("a", schemas.ClassLow)},
		}, "[low normal high]"},
		{"urgency takes nothing from others", []request{
			{Who: "a1", Flow: of("a", schemas.ClassHigh), Work: 1}, {Who: "a2", Flow: of("a", schemas.ClassHigh), Work: 1},
			{Who: "b1", Flow: of("b", schemas.ClassLow), Work: 1}, {Who: "b2", Flow: of("b", schemas.ClassLow), Work: 1},
		}, "[a1 b1 a2 b2]"},
		{"what has begun goes first", []request{
			normal("a", "a", 1, 0), {Who: "c2", Flow: of("c", schemas.ClassLow), Arrived: 8, Begun: true}, {Who: "c1", Flow: of("c", schemas.ClassLow), Arrived: 7, Begun: true},
		}, "[c1 c2 a]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var q Queue[string]
			for _, r := range tc.join {
				q.Join(r)
			}
			if got := fmt.Sprint(drain(&q)); got != tc.want || q.Len() != 0 || q.tenants != nil {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Who comes later does not wait for what others had before, and what they had
// alone is not held against them.
func TestLateTenant(t *testing.T) {
	var q Queue[string]
	for i := range 100 {
		q.Join(Request[string]{Who: fmt.Sprint("a", i), Flow: of("a", schemas.ClassNormal), Work: 1})
	}
	for range 50 {
		q.Next()
	}
	for i := range 3 {
		q.Join(Request[string]{Who: fmt.Sprint("b", i), Flow: of("b", schemas.ClassNormal), Work: 1})
	}
	if got := fmt.Sprint(drain(&q)[:6]); got != "[b0 a50 b1 a51 b2 a52]" {
		t.Errorf("got %s", got)
	}
}

func TestRefund(t *testing.T) {
	var q Queue[string]
	for i := range 4 {
		for _, tenant := range []string{"a", "b"} {
			q.Join(Request[string]{Who: fmt.Sprint(tenant, i), Flow: of(tenant, schemas.ClassNormal), Work: 10})
		}
	}
	q.Next()            // a0
	q.Next()            // b0
	q.Refund("a", 1, 5) // it ended early
	q.Refund("nobody", 1, 5)
	if got := fmt.Sprint(drain(&q)); got != "[a1 b1 a2 b2 a3 b3]" {
		t.Errorf("got %s", got)
	}
	for i := range 3 {
		q.Join(Request[string]{Who: fmt.Sprint("a", i), Flow: of("a", schemas.ClassNormal), Work: 10})
		q.Join(Request[string]{Who: fmt.Sprint("b", i), Flow: of("b", schemas.ClassNormal), Work: 10})
	}
	q.Next()             // a0
	q.Refund("a", 1, 10) // it was cancelled
	if got := fmt.Sprint(drain(&q)); got != "[a1 b0 a2 b1 b2]" {
		t.Errorf("got %s", got)
	}
}

func TestLeaveAndLast(t *testing.T) {
	var q Queue[string]
	if _, ok := q.Last(); ok || q.Leave("a") {
		t.Error("somebody waits in an empty queue")
	}
	for i, who := range []string{"a0", "a1", "b0", "b1", "b2"} {
		q.Join(Request[string]{Who: who, Flow: of(who[:1], schemas.ClassNormal), Work: 1, Arrived: float64(i)})
	}
	q.Join(Request[string]{Who: "begun", Flow: of("b", schemas.ClassNormal), Begun: true})
	var last []string
	for r, ok := q.Last(); ok; r, ok = q.Last() {
		last = append(last, r.Who)
		if !q.Leave(r.Who) || q.Leave(r.Who) {
			t.Errorf("%s does not leave once", r.Who)
		}
	}
	if fmt.Sprint(last) != "[b2 a1 b1 a0 b0]" || q.Len() != 1 || !q.Leave("begun") || q.Len() != 0 {
		t.Errorf("%v, and %d wait", last, q.Len())
	}
}

// A load is a random course of arrivals and turns; time is the number of what happened.
type load struct {
	weights  map[string]float64
	requests []Request[int]
	turns    []int // after how many arrivals there is one, ascending
}

func drawLoad(t *rapid.T) load {
	l := load{weights: map[string]float64{}}
	n := rapid.IntRange(1, 150).Draw(t, "requests")
	for i := range n {
		tenant := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "tenant")
		if l.weights[tenant] == 0 {
			l.weights[tenant] = float64(rapid.IntRange(1, 8).Draw(t, "weight"))
		}
		l.requests = append(l.requests, Request[int]{
			Who: i, Flow: of(tenant, rapid.SampledFrom(schemas.Classes).Draw(t, "class")), Weight: l.weights[tenant],
			Work: float64(rapid.IntRange(1, 500).Draw(t, "work")), Arrived: float64(i),
		})
	}
	l.turns = rapid.SliceOfN(rapid.IntRange(0, n), 0, n).Draw(t, "turns")
	slices.Sort(l.turns)
	return l
}

// run plays a load; each sees the queue before every turn, and who went.
func (l load) run(each func(waiting map[string]int, r Request[int])) {
	var q Queue[int]
	waiting := map[string]int{}
	next := func() {
		before := map[string]int{}
		for k, v := range waiting {
			before[k] = v
		}
		r, ok := q.Next()
		if !ok {
			if q.Len() != 0 {
				panic("somebody waits, and nobody goes")
			}
			return
		}
		waiting[r.Flow.Tenant]--
		each(before, r)
	}
	for i, r := range l.requests {
		for len(l.turns) > 0 && l.turns[0] <= i {
			l.turns = l.turns[1:]
			next()
		}
		q.Join(r)
		waiting[r.Flow.Tenant]++
	}
	for q.Len() > 0 {
		next()
	}
}

// All go once, those of a tenant in the order in which they are due among those
// that wait, and the same load gives the same order.
func TestEverybodyGoesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLoad(t)
		var first, second []int
		l.run(func(_ map[string]int, r Request[int]) { first = append(first, r.Who) })
		l.run(func(_ map[string]int, r Request[int]) { second = append(second, r.Who) })
		if !slices.Equal(first, second) {
			t.Fatalf("%v, then %v", first, second)
		}
		went := map[int]int{}
		for at, who := range first {
			if _, again := went[who]; again {
				t.Fatalf("%d went twice", who)
			}
			went[who] = at
		}
		for i, a := range l.requests {
			for _, b := range l.requests[i+1:] {
				if a.Flow == b.Flow && went[a.Who] > went[b.Who] {
					t.Fatalf("%d of %v went before %d", b.Who, b.Flow, a.Who)
				}
			}
		}
		if len(went) != len(l.requests) {
			t.Fatalf("%d of %d went", len(went), len(l.requests))
		}
	})
}

// While two tenants wait, what they had by their weights differs by no more than
// a largest request of each: theorem 1 of start-time fair queueing.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLoad(t)
		largest := map[string]float64{}
		for _, r := range l.requests {
			largest[r.Flow.Tenant] = max(largest[r.Flow.Tenant], r.Work/r.Weight)
		}
		had := map[[2]string]float64{} // of the first while both wait
		l.run(func(waiting map[string]int, r Request[int]) {
			a := r.Flow.Tenant
			for b := range l.weights {
				if waiting[b] == 0 {
					had[[2]string{a, b}], had[[2]string{b, a}] = 0, 0
					continue
				}
				had[[2]string{a, b}] += r.Work / r.Weight
				x, y := had[[2]string{a, b}], had[[2]string{b, a}]
				if bound := largest[a] + largest[b]; a != b && math.Abs(x-y) > bound+1e-6 {
					t.Fatalf("%s had %v and %s %v, bound %v", a, x, b, y, bound)
				}
			}
			if waiting[a] == 1 { // nobody of it waits now
				for b := range l.weights {
					had[[2]string{a, b}], had[[2]string{b, a}] = 0, 0
				}
			}
		})
	})
}

// However many others send, a tenant's first request goes once each of them has
// had at most one turn.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		others := rapid.IntRange(1, 20).Draw(t, "tenants")
		join := func(who int) {
			q.Join(Request[int]{Who: who, Flow: of(fmt.Sprint("t", who), schemas.ClassHigh), Work: float64(rapid.IntRange(1, 1000).Draw(t, "work"))})
		}
		for i := range others {
			join(i)
			join(i)
		}
		for range rapid.IntRange(0, 2*others-1).Draw(t, "before") {
			r, _ := q.Next()
			join(r.Who) // they send without end
		}
		q.Join(Request[int]{Who: -1, Flow: of("one", schemas.ClassLow), Work: 4096})
		turns := map[int]int{}
		for r, _ := q.Next(); r.Who != -1; r, _ = q.Next() {
			if turns[r.Who]++; turns[r.Who] > 1 {
				t.Fatalf("tenant %d went twice", r.Who)
			}
			join(r.Who)
		}
	})
}

// Names that somebody makes up, one for each request, are not remembered for good
// while others wait; who had most is remembered longest.
func TestManyTenants(t *testing.T) {
	var q Queue[int]
	join := func(who int, tenant string, work float64) {
		q.Join(Request[int]{Who: who, Flow: of(tenant, schemas.ClassNormal), Work: work})
	}
	join(-2, "waits", 1<<30)
	join(-2, "waits", 1)
	q.Next()
	join(-1, "heavy", 1<<20)
	q.Next()
	for i := range 4 * maxAhead {
		join(i, fmt.Sprint("t", i), 1)
		if r, _ := q.Next(); r.Who != i {
			t.Fatalf("%d went before %d", r.Who, i)
		}
		if n := len(q.tenants); n > maxAhead+2 {
			t.Fatalf("%d tenants are remembered after %d requests", n, i)
		}
	}
	if heavy := q.tenants["heavy"]; heavy == nil || heavy.time != 1<<20 {
		t.Errorf("what the one who had most had is forgotten: %+v", heavy)
	}
}

func TestAhead(t *testing.T) {
	load := func(tenant string, class schemas.Class, n int, work float64) Load {
		return Load{Flow: of(tenant, class), Requests: n, Work: work}
	}
	for _, tc := range []struct {
		name    string
		waiting []Load
		class   schemas.Class
		weight  float64
		want    float64
	}{
		{"nobody", nil, schemas.ClassNormal, 1, 0},
		{"its own", []Load{load("me", schemas.ClassNormal, 2, 100)}, schemas.ClassNormal, 1, 100},
		{"not the less urgent", []Load{load("me", schemas.ClassNormal, 2, 100), load("me", schemas.ClassHigh, 1, 7)}, schemas.ClassHigh, 1, 7},
		{"a turn of the others", []Load{load("a", schemas.ClassHigh, 10, 1000), load("b", schemas.ClassLow, 1, 3)}, schemas.ClassNormal, 1, 103},
		{"as much of the others, and a turn", []Load{load("me", schemas.ClassNormal, 2, 100), load("a", schemas.ClassNormal, 10, 1000)}, schemas.ClassNormal, 1, 300},
		{"half as much", []Load{load("me", schemas.ClassNormal, 2, 100), load("a", schemas.ClassNormal, 10, 1000)}, schemas.ClassNormal, 2, 250},
		{"not more than there is", []Load{load("me", schemas.ClassNormal, 2, 100), load("a", schemas.ClassNormal, 10, 120)}, schemas.ClassNormal, 1, 212},
		{"of all classes", []Load{load("a", schemas.ClassHigh, 1, 10), load("a", schemas.ClassLow, 1, 30)}, schemas.ClassNormal, 1, 20},
	} {
		if got := Ahead(tc.waiting, of("me", tc.class), tc.weight); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, tenants := range []int{1, 100} {
		b.Run(fmt.Sprint(tenants, "tenants"), func(b *testing.B) {
			var q Queue[int]
			join := func(i int) {
				q.Join(Request[int]{Who: i, Flow: of(fmt.Sprint(i%tenants), schemas.ClassNormal), Work: 100, Arrived: float64(i)})
			}
			for i := range 1024 {
				join(i)
			}
			for i := range b.N {
				q.Next()
				join(1024 + i)
			}
		})
	}
}
