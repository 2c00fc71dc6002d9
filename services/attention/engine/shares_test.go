package engine

import (
	"fmt"
	"slices"
	"testing"

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
