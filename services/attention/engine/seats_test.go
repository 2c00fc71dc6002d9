package engine

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Two groups of layers: one sees everything, the other 16 positions.
var twoGroups = kvcache.Shape{Layers: []kvcache.LayerShape{
	{Heads: 1, KeyDim: 4, ValueDim: 4},
	{Heads: 2, KeyDim: 4, ValueDim: 4, Sight: model.Sight{Window: 16}},
}}

// longest is how long an answer may get, and mostAsides how often a sequence may step
// aside then: each time there is twice as much room for all to grow.
const longest = 300

var mostAsides = bits.Len(longest / kvcache.PagePositions)

// Whatever the lengths, and whoever is cancelled: every sequence gets to its end, none
// steps aside too often, and pages are never more than there are.
func TestAllGetToTheirEnd(t *testing.T) { underPressure(t, 1) }

// Whoever's they are, too; those of a tenant step aside for others' as well.
func TestAllOfTenantsGetToTheirEnd(t *testing.T) { underPressure(t, 3) }

func underPressure(t *testing.T, tenants int) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPressure(t, rt)
		p.tenants = tenants
		rt.Repeat(map[string]func(*rapid.T){
			"add":    p.add,
			"start":  func(*rapid.T) { p.start() },
			"land":   p.land,
			"run":    p.run,
			"cancel": p.cancelOne,
			"":       func(*rapid.T) { p.check() },
		})
		p.finish()
	})
}

// pressure is a scheduler with few pages, and how long its sequences' answers get.
type pressure struct {
	*bench
	rt      *rapid.T
	all     []*Sequence
	lengths map[*Sequence]int
	tenants int
	work    int // rows, if nobody stepped aside
}

func newPressure(t *testing.T, rt *rapid.T) *pressure {
	p := &pressure{rt: rt, lengths: map[*Sequence]int{}}
	p.bench = newBench(t, rapid.IntRange(1, 3).Draw(rt, "workers"), rapid.IntRange(2, 40).Draw(rt, "rows"))
	shape := rapid.SampledFrom([]kvcache.Shape{oneHead, twoGroups}).Draw(rt, "shape")
	shape.Rows = p.chooser.policy.MaxRows
	p.hasPagesOf(shape, rapid.IntRange(2, 40).Draw(rt, "pages"))
	return p
}

func (p *pressure) add(rt *rapid.T) {
	if len(p.all) == 25 {
		rt.Skip("enough")
	}
	s := p.request(fmt.Sprint(len(p.all)), rapid.IntRange(1, 90).Draw(rt, "prompt"), longest-rapid.IntRange(0, longest-1).Draw(rt, "less"))
	if p.kv.Need(s.positions()) > p.kv.Capacity() {
		p.taken--
		rt.Skip("it was given back")
	}
	if long := rapid.IntRange(0, 200).Draw(rt, "long"); long > 0 {
		s.isLong = func(length int) bool { return length > long }
	}
	if p.tenants > 1 {
		who := rapid.IntRange(1, p.tenants).Draw(rt, "tenant")
		s.of(fmt.Sprint("t", who), "", uint32(who))
	}
	p.lengths[s] = int(s.seq.MaxTokens) - rapid.IntRange(0, int(s.seq.MaxTokens)-1).Draw(rt, "less")
	p.all, p.work = append(p.all, s), p.work+s.positions()
	p.bench.add(s)
}

func (p *pressure) cancelOne(rt *rapid.T) {
	if len(p.all) == 0 {
		rt.Skip("no sequence")
	}
	p.cancel(&pb.Cancel{RequestId: rapid.SampledFrom(p.all).Draw(rt, "sequence").seq.RequestId, Reason: "cancelled"})
}

func (p *pressure) land(rt *rapid.T) {
	if len(p.flying) == 0 {
		rt.Skip("nothing in flight")
	}
	p.landOne(rapid.IntRange(0, len(p.flying)-1).Draw(rt, "which"))
}

// run is many steps, each worker's in its turn.
func (p *pressure) run(rt *rapid.T) {
	for range rapid.IntRange(1, 100).Draw(rt, "steps") {
		p.start()
		p.check()
		if len(p.flying) > 0 {
			p.landOne(0)
		}
	}
}

// landOne takes a microbatch through the layers, as far as its pages are concerned.
func (p *pressure) landOne(i int) {
	mb := p.flying[i]
	p.flying = slices.Delete(p.flying, i, i+1)
	for j := range mb.parts {
		pt := &mb.parts[j]
		s := pt.s
		if s.table.Pages(0) < kvcache.PagesFor(s.done) {
			p.rt.Fatalf("%s steps at %d, and has %d pages before", s.seq.RequestId, s.done, s.table.Pages(0))
		}
		s.table.Span(s.done, s.done+pt.rows)
		if s.done+pt.rows == len(s.ids) {
			pt.choices = []sampling.Choice{{ID: 5}}
			if s.generated()+1 == p.lengths[s] {
				pt.choices[0].ID = 9
			}
		}
	}
	p.settle(mb)
	p.write()
}

// finish lets everything come to its end: within the steps that it takes when each
// begins anew as often as it may.
func (p *pressure) finish() {
	for n := 0; len(p.own.order) > 0; n++ {
		if n > (p.work+1)*20 {
			p.rt.Fatalf("%d sequences do not end; %d are aside, %d in line", len(p.own.order), len(p.seats.aside), p.seats.line.Len())
		}
		p.run(p.rt)
	}
	for _, s := range p.all {
		if end := book(s).end(); end == nil || end.FinishReason != "cancelled" && len(book(s).tokens()) != p.lengths[s] {
			p.rt.Fatalf("%s: %d tokens of %d, end %v", s.seq.RequestId, len(book(s).tokens()), p.lengths[s], end)
		}
	}
	if p.kv.Used() != 0 || p.released != p.taken {
		p.rt.Fatalf("%d pages and %d slots are left", p.kv.Used(), p.taken-p.released)
	}
}

func (p *pressure) check() {
	checkBooks(p.rt, p.bench, p.all)
	byAge := func(a, b *Sequence) int { return cmp.Compare(a.admission, b.admission) }
	if !slices.IsSortedFunc(p.seats.aside, byAge) {
		p.rt.Fatal("those aside are not in the order of their age")
	}
	for _, s := range p.own.order {
		switch {
		case p.tenants == 1 && s.asides > mostAsides:
			p.rt.Fatalf("%s stepped aside %d times", s.seq.RequestId, s.asides)
		case s.guest && s.table != nil && s.table.Positions() < s.extent() && s.flight == nil && !s.ended && s.extent() <= len(s.seq.PromptIds)+firstTurn:
			p.rt.Fatalf("guest %s cannot go on", s.seq.RequestId)
		case p.tenants == 1 && s.table != nil && !s.ended && !s.guest && len(p.seats.aside) > 0 && s.admission > p.seats.aside[0].admission:
			p.rt.Fatalf("%s has pages, and %s, which is older, stepped aside", s.seq.RequestId, p.seats.aside[0].seq.RequestId)
		}
	}
	if pages, _ := p.seats.guests(); pages > p.kv.Capacity()/4 {
		p.rt.Fatalf("guests have %d of %d pages", pages, p.kv.Capacity())
	}
}

// Who comes while others are aside gets its first turn at once, as far as a quarter of the pages
// goes. A short answer ends in it; a long one then waits for those before it.
func TestGuests(t *testing.T) {
	b := newBench(t, 1, 64)
	b.hasPages(64)
	var long []*Sequence
	for i := range 12 {
		long = append(long, b.request(fmt.Sprint("long ", i), 2, 500))
		b.add(long[i])
	}
	for i := 0; len(b.seats.aside) < 4; i++ {
		if b.step(5); i > 500 {
			t.Fatal("nobody stepped aside")
		}
	}
	short, late := b.request("short", 20, 30), b.request("late", 20, 400)
	b.add(short)
	b.add(late)
	for i := 0; book(short).end() == nil; i++ {
		if b.step(5); i > 60 {
			t.Fatalf("a short answer has %d tokens", short.generated())
		}
	}
	for range firstTurn {
		b.step(5)
	}
	if late.generated() < firstTurn || late.table != nil || late.asides != 1 || late.guest {
		t.Errorf("a long answer has %d tokens and was aside %d times", late.generated(), late.asides)
	}
	for _, s := range long {
		if s.ended {
			t.Errorf("%s has ended", s.seq.RequestId)
		}
	}
	for i := range 10 {
		b.add(b.request(fmt.Sprint("more ", i), 2, 400))
	}
	if pages, room := b.seats.guests(); pages == 0 || pages > 16 || room >= 5 {
		t.Errorf("guests have %d pages, and room for %d", pages, room)
	}
}

// A sequence that stepped aside keeps its claim, and a cancellation ends it there.
func TestAsideKeepsItsClaim(t *testing.T) {
	b := newBench(t, 1, 64)
	b.hasPages(4)
	old, young := b.request("old", 32, 90), b.request("young", 31, 60)
	b.add(old)
	b.add(young)
	for i := 0; len(b.seats.aside) == 0; i++ {
		if i > 90 {
			t.Fatal("nobody stepped aside")
		}
		b.step(5)
	}
	if !b.renewed(young) || !b.own.holds("young") {
		t.Error("its claim is not renewed")
	}
	b.cancel(&pb.Cancel{RequestId: "young", Reason: "cancelled"})
	if book(young).end().GetFinishReason() != "cancelled" || len(b.seats.aside) != 0 || b.released != 1 || b.own.holds("young") {
		t.Errorf("end %v, %d aside, %d slots are free again", book(young).end(), len(b.seats.aside), b.released)
	}
	if used := b.kv.Used(); used != old.table.Reserved() {
		t.Errorf("%d pages are used, the other has %d", used, old.table.Reserved())
	}
}

// One that needs all pages is served under a stream of small ones without end,
// and those that wait leave at once when they are cancelled or late.
func TestLargeAmongSmall(t *testing.T) {
	b := newBench(t, 1, 64)
	b.hasPages(4)
	b.add(b.request("small", 2, 2))
	large, gone, late := b.request("large", 4*32-2, 2), b.request("gone", 2*32, 1), b.request("late", 3*32, 1)
	late.deadline = b.clock
	for _, s := range []*Sequence{large, gone, late} {
		b.add(s)
	}
	b.cancel(&pb.Cancel{RequestId: "gone", Reason: "cancelled"})
	b.later(time.Second)
	if b.seats.line.Len() != 1 || book(gone).end().GetFinishReason() != "cancelled" || book(late).end().GetError().GetCode() != "deadline_exceeded" {
		t.Fatalf("%d wait; ended: %v, %v", b.seats.line.Len(), book(gone).end(), book(late).end())
	}
	for i := 0; book(large).end() == nil; i++ {
		if i > 20 {
			t.Fatalf("%d small ones were served before the large one", i)
		}
		b.add(b.request(fmt.Sprint(i), 2, 2))
		b.step(5)
	}
}

// A sequence of layers with windows takes what these hold at a time, however long it
// gets.
func TestWindowsTakeLess(t *testing.T) {
	b := newBench(t, 1, 8)
	layer := kvcache.LayerShape{Heads: 1, KeyDim: 4, ValueDim: 4, Sight: model.Sight{Window: 16}}
	b.hasPagesOf(kvcache.Shape{Rows: 8, Layers: []kvcache.LayerShape{layer}}, 3)
	s := b.request("r", 2, 200)
	b.add(s)
	for i := 0; !s.ended; i++ {
		if b.step(5); i > 200 || b.kv.Used() > 2 {
			t.Fatalf("%d tokens in %d pages", s.generated(), b.kv.Used())
		}
	}
}
