package attention

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever happens in whatever order: a log has one end and nothing after it,
// its tokens are numbered, and pages and slots are freed once.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, rapid.IntRange(1, 3).Draw(rt, "workers"), rapid.IntRange(1, 20).Draw(rt, "rows"))
		b.hasPages(rapid.IntRange(2, 12).Draw(rt, "pages"))
		var all []*sequence
		pick := func(rt *rapid.T) *sequence {
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
				s.epoch = uint64(rapid.IntRange(0, 30).Draw(rt, "epoch"))
				b.add(s)
				all = append(all, s)
			},
			"start": func(*rapid.T) { b.start() },
			"land": func(rt *rapid.T) {
				if len(b.flying) == 0 {
					rt.Skip("nothing in flight")
				}
				errs := []error{nil, nil, nil, errors.New("failed"), context.Canceled, &panicError{"fault"}}
				err := rapid.SampledFrom(errs).Draw(rt, "error")
				b.land(rapid.IntRange(0, len(b.flying)-1).Draw(rt, "which"), rapid.SampledFrom([]uint32{5, 9}).Draw(rt, "token"), err)
			},
			"cancel": func(rt *rapid.T) { b.cancel(&pb.Cancel{RequestId: pick(rt).seq.RequestId, Reason: "cancelled"}) },
			"lose": func(rt *rapid.T) {
				s := pick(rt)
				book(s).err = tokenlog.ErrStale
				b.drop(lostLog{request: s.seq.RequestId, writer: s.writer})
			},
			"beat": func(rt *rapid.T) {
				pick(rt).deadline = time.Now()
				b.heartbeat(time.Now().Add(time.Second))
			},
			"": func(rt *rapid.T) { checkBooks(rt, b, all) },
		})
		for steps := 0; len(b.order) > 0 && steps < 2000; steps++ {
			b.step(9)
		}
		checkBooks(rt, b, all)
		if b.released != b.taken || b.kv.Used() != 0 || len(b.sequences)+len(b.order)+len(b.busy) != 0 {
			rt.Fatalf("%d of %d slots, %d pages, %d sequences are left", b.taken-b.released, b.taken, b.kv.Used(), len(b.sequences))
		}
	})
}

func checkBooks(t *rapid.T, b *bench, all []*sequence) {
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
	flying := map[*sequence]bool{}
	for _, mb := range b.flying {
		for _, p := range mb.parts {
			if flying[p.s] {
				t.Fatalf("%s is in two microbatches", p.s.seq.RequestId)
			}
			flying[p.s] = true
		}
	}
	if held := b.taken - b.released; held != len(b.order) {
		t.Fatalf("%d slots are held by %d sequences", held, len(b.order))
	}
	pages, waiting := 0, 0
	for _, s := range b.order {
		if s.table == nil {
			waiting++
		} else {
			pages += kvcache.PagesFor(s.positions())
		}
	}
	if pages != b.kv.Used() || waiting != b.line.Len() {
		t.Fatalf("%d pages are held and %d used; %d sequences wait, %d in line", pages, b.kv.Used(), waiting, b.line.Len())
	}
}
