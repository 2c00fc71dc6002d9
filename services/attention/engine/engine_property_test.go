package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever happens in whatever order: no sequence is lost and no position is
// stepped again once it was computed, a log has one end and nothing after it, its
// tokens are numbered, and pages and slots are freed once.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, rapid.IntRange(1, 3).Draw(rt, "workers"), rapid.IntRange(1, 20).Draw(rt, "rows"))
		b.hasPages(rapid.IntRange(2, 12).Draw(rt, "pages"))
		var all []*Sequence
		others := map[*Sequence]bool{} // whose logs others write
		steps := positions{t: rt, bench: b, computed: map[*Sequence]int{}}
		pick := func(rt *rapid.T) *Sequence {
			if len(all) == 0 {
				rt.Skip("no sequence")
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(rt, "sequence")]
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				if len(all) == 20 {
					rt.Skip("enough")
				}
				id := fmt.Sprint(rapid.IntRange(0, 6).Draw(rt, "id"))
				s := b.request(id, rapid.IntRange(1, 30).Draw(rt, "prompt"), rapid.IntRange(1, 4).Draw(rt, "max"))
				s.epoch = uint64(rapid.IntRange(0, 30).Draw(rt, "epoch")*100 + len(all)) // no two are the same
				s.doubtful = rapid.IntRange(0, 4).Draw(rt, "doubtful") == 0
				b.add(s)
				all = append(all, s)
			},
			"start": func(*rapid.T) { steps.start() },
			"land": func(rt *rapid.T) {
				if len(b.flying) == 0 {
					rt.Skip("nothing in flight")
				}
				errs := []error{nil, nil, nil, errors.New("failed"), context.Canceled, &panicError{"fault"}}
				err := rapid.SampledFrom(errs).Draw(rt, "error")
				steps.land(rapid.IntRange(0, len(b.flying)-1).Draw(rt, "which"), rapid.SampledFrom([]uint32{5, 9}).Draw(rt, "token"), err)
			},
			"cancel": func(rt *rapid.T) { b.cancel(&pb.Cancel{RequestId: pick(rt).seq.RequestId, Reason: "cancelled"}) },
			"lose": func(rt *rapid.T) {
				s := pick(rt)
				others[s], book(s).err = true, tokenlog.ErrStale
				b.drop(lostLog{request: s.seq.RequestId, writer: s.writer})
			},
			"beat": func(rt *rapid.T) {
				pick(rt).deadline = b.clock
				b.later(time.Second)
			},
			"full": func(rt *rapid.T) { book(pick(rt)).full = true },
			"room": func(rt *rapid.T) { book(pick(rt)).full = false },
			"cut": func(rt *rapid.T) {
				if s := pick(rt); book(s).err == nil && book(s).end() == nil {
					_ = s.writer.Append(&pb.Record{Kind: &pb.Record_Terminal{Terminal: noRoom(tokenlog.ErrNoRoom)}})
					b.drop(lostLog{request: s.seq.RequestId, writer: s.writer, full: tokenlog.ErrNoRoom})
				}
			},
			"": func(rt *rapid.T) { checkBooks(rt, b, all) },
		})
		for _, s := range all {
			book(s).full = false
		}
		for n := 0; len(b.own.order) > 0 && n < 2000; n++ {
			steps.start()
			for len(b.flying) > 0 {
				steps.land(0, 9, nil)
			}
		}
		checkBooks(rt, b, all)
		checkEnds(rt, all, others)
		if b.released != b.taken || b.kv.Used() != 0 || len(b.own.byRequest)+len(b.own.order)+len(b.crew.busy) != 0 {
			rt.Fatalf("%d of %d slots, %d pages, %d sequences are left", b.taken-b.released, b.taken, b.kv.Used(), len(b.own.byRequest))
		}
	})
}

// positions are what was computed of each sequence, since it last got its pages.
type positions struct {
	*bench
	t        *rapid.T
	computed map[*Sequence]int
}

func (c *positions) start() {
	before := len(c.flying)
	c.bench.start()
	for _, s := range c.own.order {
		if s.table == nil {
			c.computed[s] = 0
		}
	}
	for _, mb := range c.flying[before:] {
		for _, p := range mb.parts {
			if p.s.done != c.computed[p.s] || p.rows < 1 || p.s.done+p.rows > len(p.s.ids) {
				c.t.Fatalf("%s steps at %d by %d; %d of %d positions are computed", p.s.seq.RequestId, p.s.done, p.rows, c.computed[p.s], len(p.s.ids))
			}
		}
	}
}

func (c *positions) land(i int, token uint32, err error) {
	if err == nil {
		for _, p := range c.flying[i].parts {
			c.computed[p.s] += p.rows
		}
	}
	c.bench.land(i, token, err)
}

// checkEnds wants an end of every request, by its newest claim if the log is ours.
func checkEnds(t *rapid.T, all []*Sequence, others map[*Sequence]bool) {
	newest := map[string]*Sequence{}
	for _, s := range all {
		if n := newest[s.seq.RequestId]; n == nil || n.epoch < s.epoch {
			newest[s.seq.RequestId] = s
		}
	}
	for id, s := range newest {
		if !others[s] && book(s).end() == nil {
			t.Fatalf("%s (epoch %d) has no end: %v", id, s.epoch, book(s).records)
		}
	}
}

func checkBooks(t *rapid.T, b *bench, all []*Sequence) {
	for _, s := range all {
		tokens := 0
		for i, r := range book(s).records {
			if r.GetTerminal() != nil && i != len(book(s).records)-1 {
				t.Fatalf("%s: records after the end: %v", s.seq.RequestId, book(s).records)
			}
			if tok := r.GetToken(); tok != nil {
				if tok.Index != int32(tokens) {
					t.Fatalf("%s: index %d, want %d", s.seq.RequestId, tok.Index, tokens)
				}
				tokens++
			}
		}
		if tokens > int(s.seq.MaxTokens) {
			t.Fatalf("%s: %d tokens of %d", s.seq.RequestId, tokens, s.seq.MaxTokens)
		}
	}
	flying := map[*Sequence]bool{}
	for _, mb := range b.flying {
		for _, p := range mb.parts {
			if flying[p.s] {
				t.Fatalf("%s is in two microbatches", p.s.seq.RequestId)
			}
			flying[p.s] = true
		}
	}
	if held := b.taken - b.released; held != len(b.own.order) {
		t.Fatalf("%d slots are held by %d sequences", held, len(b.own.order))
	}
	pages, waiting := 0, 0
	for _, s := range b.own.order {
		if s.table == nil {
			waiting++
		} else {
			pages += s.table.Reserved()
		}
	}
	if pages != b.kv.Used() || pages > b.kv.Capacity() || waiting != b.seats.line.Len()+len(b.seats.aside) {
		t.Fatalf("%d pages are held and %d used of %d; %d sequences wait, %d in line, %d aside",
			pages, b.kv.Used(), b.kv.Capacity(), waiting, b.seats.line.Len(), len(b.seats.aside))
	}
}
