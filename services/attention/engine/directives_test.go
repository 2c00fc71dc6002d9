package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// regime is directives that a test sets, and what was heard.
type regime struct {
	now     Directive
	prefill []bool
	waits   []Waiting
	steps   []Stepped
}

func (r *regime) Now(prefill bool) Directive { r.prefill = append(r.prefill, prefill); return r.now }
func (r *regime) Step(s Stepped)             { r.steps = append(r.steps, s) }
func (r *regime) Wait(w Waiting)             { r.waits = append(r.waits, w) }

// Steps obey what holds when they begin. Rows of requests that accept no stand-in, or that have
// had more of their rows degraded than may be, are marked; without directives none is.
func TestObeys(t *testing.T) {
	b := newBench(t, 1, 64)
	r := &regime{}
	b.scheduler.directives = r
	allow, never := b.request("allow", 4, 8), b.request("never", 4, 8)
	never.seq.OwnExperts = true
	b.add(allow)
	b.add(never)
	marked := func() (own []string) {
		b.start()
		for _, run := range runsOf(b.flying[0]) {
			own = append(own, fmt.Sprint(run.Sequence, " ", run.Own))
		}
		slices.Sort(own)
		return own
	}
	if got := fmt.Sprint(marked(), b.flying[0].order); got != "[allow false never false] <nil>" {
		t.Errorf("without directives: %s", got)
	}
	b.land(0, 1, nil)
	r.now = Directive{Order: &layer.Order{Stamp: &pb.Stamp{Version: 1, PrefillMillionths: 300_000, DecodeMillionths: 400_000}}, Share: 1, RowSlots: 2}
	if got := fmt.Sprint(marked()); got != "[allow false never true]" || b.flying[0].order != r.now.Order {
		t.Errorf("with one: %s", got)
	}
	for i := range b.flying[0].parts {
		if p := &b.flying[0].parts[i]; p.s == allow {
			p.fates = wire.EncodeFates(wire.FatesShape{Rows: 1, Layers: 1, Slots: 2}, []wire.FateCode{wire.FateUnited, wire.FateOwn})
			p.fates.Way = 8
		}
	}
	b.land(0, 1, nil)
	if want := (wire.FateCounter{Rows: 1, Tokens: 1, Lowest: 400_000, Way: 8}); allow.degraded != want || never.degraded.Record() != nil {
		t.Errorf("%+v and %+v were degraded", allow.degraded, never.degraded)
	}
	r.now.Share = 0.05 // of 5 rows with 2 slots each
	if got := fmt.Sprint(marked()); got != "[allow true never true]" {
		t.Errorf("with less than it has had: %s", got)
	}
	b.land(0, 9, nil)
	if got := fmt.Sprint(r.prefill); got != "[true false false]" {
		t.Errorf("directives were asked for steps of prompts: %s", got)
	}
	records := book(allow).records
	if token := records[1].GetToken(); token.Degraded.GetRows() != 1 || records[0].GetToken().Degraded != nil || book(allow).end().Degraded.GetTokens() != 1 {
		t.Errorf("the log has %v", records)
	}
}

// A step that is told has the threshold of its phase; without an order there is none.
func TestStepped(t *testing.T) {
	o := &layer.Order{Stamp: &pb.Stamp{PrefillMillionths: 3, DecodeMillionths: 2}}
	for _, tc := range []struct {
		mb   microbatch
		want string
	}{
		{microbatch{prompts: 9, rows: 9, order: o, curve: []uint32{4, 5}, layers: time.Second, heads: time.Second}, "{true 9 2s [4 5] 3}"},
		{microbatch{rows: 1, order: o}, "{false 1 0s [] 2}"},
		{microbatch{rows: 1}, "{false 1 0s [] 0}"},
	} {
		if got := fmt.Sprint(tc.mb.stepped()); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// A threshold is that of the rows' phases; of both it is the lower one.
func TestThreshold(t *testing.T) {
	s := newSequence(&pb.Sequence{PromptIds: make([]uint32, 4)})
	s.ids = append(s.ids, 1, 2)
	o := &layer.Order{Stamp: &pb.Stamp{PrefillMillionths: 3, DecodeMillionths: 2}}
	for _, tc := range []struct {
		done, rows int
		want       uint32
	}{{0, 4, 3}, {3, 1, 3}, {3, 2, 2}, {4, 1, 2}} {
		s.done = tc.done
		if got := threshold(&part{s: s, rows: tc.rows}, o); got != tc.want {
			t.Errorf("%d rows from %d on: %d, want %d", tc.rows, tc.done, got, tc.want)
		}
	}
}

// What waits for its first token is told, and longest how long, but for canaries and those that have theirs. What
// comes takes the place of what has ended.
func TestTellsWait(t *testing.T) {
	b := newBench(t, 1, 64)
	r := &regime{}
	b.scheduler.directives = r
	b.tellLine()
	b.add(b.request("a", 2, 8))
	b.later(3 * time.Second)
	b.add(b.request("b", 2, 8))
	b.tellLine()
	b.step(1)
	b.later(time.Second)
	b.tellLine()
	if got := fmt.Sprint(r.waits); got != "[{0s false 0} {3s true 2} {0s true 0}]" {
		t.Error(got)
	}
}

// What comes takes the place of what has ended since the newest step, and is told without it.
func TestComing(t *testing.T) {
	b := newBench(t, 1, 64)
	r := &regime{}
	b.scheduler.directives = r
	b.add(b.request("a", 2, 2))
	b.add(b.request("b", 2, 8))
	b.step(1) // both prompts
	b.step(1) // a's last token
	for _, id := range []string{"c", "d"} {
		b.add(b.request(id, 2, 8))
		b.tellLine()
	}
	b.step(1) // their prompts
	b.step(1)
	b.tellLine()
	if got := fmt.Sprint(r.waits); got != "[{0s true 0} {0s true 1} {0s true 0}]" {
		t.Error(got)
	}
}
