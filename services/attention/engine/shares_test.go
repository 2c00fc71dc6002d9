package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// of makes a request one of a tenant's class.
func (s *Sequence) of(tenant, class string, weight uint32) *Sequence {
	s.seq.Accept = &pb.Accept{Tenant: tenant, Class: class, Weight: weight}
	s.flow = schemas.FlowOf(s.seq.Accept)
	return s
}

// crowdOf adds so many requests of a tenant.
func (b *bench) crowdOf(tenant, class string, weight uint32, n, prompt, maxTokens int) (all []*Sequence) {
	for i := range n {
		s := b.request(fmt.Sprint(tenant, class, i), prompt, maxTokens).of(tenant, class, weight)
		b.add(s)
		all = append(all, s)
	}
	return all
}

// rowsOfSteps takes so many microbatches through the layers and says how many rows each tenant had.
func (b *bench) rowsOfSteps(n int) map[string]int {
	rows := map[string]int{}
	for range n {
		b.start()
		if len(b.flying) == 0 {
			b.t.Fatal("nothing steps")
		}
		for _, p := range b.flying[0].parts {
			rows[p.s.flow.Tenant+string(p.s.flow.Class)[:1]] += p.rows
		}
		b.land(0, 5, nil)
	}
	return rows
}

// Answers of tenants get on by weight, whoever has more requests under way, with one worker or two.
func TestAnswersByWeight(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		b := newBench(t, workers, 256)
		b.hasPages(4096)
		b.crowdOf("a", "", 1, 40, 4, 2000)
		b.crowdOf("b", "", 1, 20, 4, 2000)
		b.crowdOf("c", "", 8, 20, 4, 2000)
		b.rowsOfSteps(10)
		rows := b.rowsOfSteps(400)
		for tenant, want := range map[string]float64{"an": 0.125, "bn": 0.125} {
			if got := float64(rows[tenant]) / float64(rows["cn"]); got < 0.9*want || got > 1.1*want {
				t.Errorf("%d workers: %s has %.3f rows for one of c, want %.3f: %v", workers, tenant, got, want, rows)
			}
		}
	}
}

// Prompts do, too; and a tenant's classes share what it has.
func TestPromptsByWeight(t *testing.T) {
	b := newBench(t, 1, 64)
	b.hasPages(60_000)
	b.crowdOf("a", "low", 1, 100, 5000, 2)
	b.crowdOf("a", "high", 1, 10, 5000, 2)
	b.crowdOf("b", "", 3, 20, 5000, 2)
	rows := b.rowsOfSteps(1000)
	for flow, want := range map[string]float64{"al": 0.05, "ah": 0.2, "bn": 0.75} {
		if got := float64(rows[flow]) / 64_000; got < want-0.01 || got > want+0.01 {
			t.Errorf("%s has %.3f of the rows, want %.3f: %v", flow, got, want, rows)
		}
	}
}

// A tenant's 128 long prompts do not go before another one's short prompt, nor their answers beside its own.
func TestOneBesideMany(t *testing.T) {
	b := newBench(t, 1, 256)
	b.hasPages(60_000)
	b.crowdOf("a", "", 1, 64, 5000, 100)
	b.crowdOf("a", "normal", 1, 64, 4, 1000)
	b.rowsOfSteps(20)
	one := b.crowdOf("b", "", 1, 1, 30, 50)[0]
	rows, steps := map[string]int{}, 0
	for ; !one.ended && steps < 200; steps++ {
		for flow, n := range b.rowsOfSteps(1) {
			rows[flow] += n
		}
	}
	// 30 rows of the prompt, and 50 steps with one of the answer.
	if others := rows["an"]; steps > 60 || others > 4*rows["bn"]+600 {
		t.Errorf("%d steps, in which the others had %d rows", steps, others)
	}
	if rows := b.rowsOfSteps(1); rows["an"] != 256 {
		t.Errorf("a tenant alone has all: %v", rows)
	}
}

// pagesOf are the pages that a tenant's sequences have.
func (b *bench) pagesOf(tenant string) (pages int) {
	for _, s := range b.own.order {
		if s.table != nil && s.flow.Tenant == tenant {
			pages += s.table.Reserved()
		}
	}
	return pages
}

// Pages go by weight once there are too few: those of the tenant that has most for it step aside, whoever
// came first.
func TestPagesByWeight(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second string
		want          float64 // of a's share
	}{"who has most came first": {"a", "c", 0.25}, "who has most came last": {"c", "a", 0.25}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1, 256)
			b.hasPages(128)
			weights := map[string]uint32{"a": 1, "c": 3}
			for _, tenant := range []string{tc.first, tc.second} {
				b.crowdOf(tenant, "", weights[tenant], 24, 60, 3000)
				for range 200 {
					b.step(5)
				}
			}
			a, total := 0, 0
			for range 1000 {
				b.step(5)
				a, total = a+b.pagesOf("a"), total+b.kv.Used()
			}
			if got := float64(a) / float64(total); got < tc.want-0.12 || got > tc.want+0.12 || total < 1000*96 {
				t.Errorf("%.2f of the pages are a's, want %.2f; %d are used", got, tc.want, total/1000)
			}
		})
	}
}

// A tenant's first request begins beside those of another one that wait for pages, however long its prompt is,
// and goes on.
func TestPagesOfOneBesideMany(t *testing.T) {
	for name, tc := range map[string]struct{ prompt, answer int }{"short": {20, 200}, "long": {40 * kvcache.PagePositions, 100}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1, 256)
			b.hasPages(128)
			b.crowdOf("many", "", 1, 64, 60, 600)
			for range 200 {
				b.step(5)
			}
			if len(b.seats.aside) == 0 || b.seats.line.Len() == 0 {
				t.Fatal("nobody waits for pages")
			}
			one, steps := b.crowdOf("one", "", 1, 1, tc.prompt, tc.answer)[0], 0
			for ; !one.ended && steps < 1500; steps++ {
				b.step(5)
			}
			if !one.ended || one.asides > 0 || steps > 900 {
				t.Errorf("after %d steps it has %d tokens, and was aside %d times", steps, one.generated(), one.asides)
			}
		})
	}
}

// A cached prompt of 400 tokens of one tenant survives twenty prompts of another, one after the other or all at
// once, and long answers to them.
func TestCachedPromptSurvives(t *testing.T) {
	for name, tc := range map[string]struct{ atOnce, prompt, answer int }{
		"one by one": {1, 400, 30}, "five at once": {5, 400, 30}, "all at once": {20, 400, 30},
		"all at once, with long answers": {20, 400, 600}, "of all pages": {1, 255 * kvcache.PagePositions, 10}, "short ones": {20, 40, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1, 512)
			b.hasPages(256) // as many as the demo has by default
			b.prefix.shared = b.kv.SharePrefixes()
			serve := func(tenant string, n, from, prompt, answer int) (last *Sequence) {
				for i := range n {
					s := b.request(fmt.Sprint(tenant, from+i), prompt, answer).of(tenant, "", 1)
					for j := range s.ids {
						s.ids[j] = uint32(from + i)
					}
					b.add(s)
					last = s
				}
				for len(b.own.order) > 0 {
					b.start()
					for len(b.flying) > 0 {
						for _, p := range b.flying[0].parts {
							p.s.table.Span(p.s.done, p.s.done+p.rows)
						}
						b.land(0, 5, nil)
					}
				}
				return last
			}
			serve("one", 1, 7, 400, 10)
			for from := 1000; from < 1020; from += tc.atOnce {
				serve("many", tc.atOnce, from, tc.prompt, tc.answer)
			}
			want := 400 / kvcache.PagePositions * kvcache.PagePositions
			if name == "of all pages" {
				want = 0 // who has all cannot leave any
			}
			if again := serve("one", 1, 7, 400, 10); again.cached != want {
				t.Errorf("%d positions are cached, want %d", again.cached, want)
			}
		})
	}
}

// A sequence of a tenant that has had its share steps all the same while nobody else does.
func TestNobodyWaitsForNobody(t *testing.T) {
	b := newBench(t, 2, 16)
	b.hasPages(4096)
	many := b.crowdOf("a", "", 1, 30, 4, 300)
	few := b.crowdOf("b", "", 5, 2, 4, 3)
	for range 10_000 {
		if b.start(); len(b.flying) == 0 {
			break
		}
		b.land(0, 5, nil)
	}
	if all := slices.Concat(few, many); slices.ContainsFunc(all, func(s *Sequence) bool { return !s.ended }) {
		t.Error("somebody waits for ever")
	}
}
