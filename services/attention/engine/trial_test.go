package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// diary is a log that outlives its owners. What is appended is stored when the test says so.
type diary struct {
	chain  tokenlog.Chain
	claims uint64
	ids    []uint32
	full   bool // a trial's beginning is not stored yet
}

func newDiary(prompt, tokens int) *diary {
	d := &diary{chain: tokenlog.NewChain(tokenlog.Rules{Vocab: 10, Positions: 100})}
	opened := &pb.Accept{Identity: &pb.Identity{Version: schemas.Version}, PromptTokens: int32(prompt), MaxTokens: int32(tokens)}
	if _, err := d.chain.Take(&pb.Record{Kind: &pb.Record_Accept{Accept: opened}}); err != nil {
		panic(err)
	}
	return d
}

func (d *diary) Append(r *pb.Record) error {
	r.Epoch = d.claims
	if _, err := d.chain.Take(r); err != nil {
		return err
	}
	if r.GetToken() != nil {
		d.ids = append(d.ids, r.GetToken().Id)
	}
	d.full = r.GetTrial() != nil && !r.GetTrial().Over
	return nil
}

func (d *diary) claim() error {
	d.claims++
	d.full = false
	return d.Append(&pb.Record{Writer: "a", Kind: &pb.Record_Claim{Claim: &pb.Claim{}}})
}

func (d *diary) open() bool                  { return d.chain.End() == nil }
func (d *diary) Full() bool                  { return d.full }
func (d *diary) Flush(context.Context) error { return nil }
func (d *diary) Done() <-chan struct{}       { return nil }

// line is replicas that have the same requests, one after the other. One of these takes
// down whoever steps it to a token; chance takes down another replica at any moment.
type line struct {
	t      *testing.T
	rt     *rapid.T
	logs   map[string]*diary
	deadly string
	at     int // the token
	rows   int
	pages  int
	chance int // microbatches until a replica goes by chance; 0: none does
	deaths int
}

// live is one replica's life.
func (l *line) live() {
	b := newBench(l.t, 2, l.rows)
	b.hasPages(l.pages)
	var own []*diary
	for _, name := range slices.Sorted(maps.Keys(l.logs)) {
		if l.takeUp(b, name) {
			own = append(own, l.logs[name])
		}
	}
	for slices.ContainsFunc(own, (*diary).open) {
		for range 2 { // what is recorded is stored, and then stepped
			for _, d := range own {
				d.full = false
			}
			b.start()
		}
		if l.check(b); len(b.flying) == 0 {
			l.rt.Fatalf("nobody steps: %v", l.logs)
		}
		l.chance--
		if l.chance == 0 || slices.ContainsFunc(b.flying, l.kills) {
			l.deaths++
			return
		}
		b.land(0, 5, nil)
	}
}

// takeUp makes a request the replica's, or ends it, as Log.Claim and its caller do.
func (l *line) takeUp(b *bench, name string) (own bool) {
	d := l.logs[name]
	switch {
	case !d.open():
		return false
	case d.chain.Crashed():
		l.must(d.Append(&pb.Record{Kind: &pb.Record_Terminal{Terminal: ErrorEnd(internal, tokenlog.ErrCrashed.Error())}}))
		return false
	}
	l.must(d.claim())
	opened := d.chain.Accept()
	s := b.request(name, int(opened.PromptTokens), int(opened.MaxTokens))
	for _, id := range d.ids {
		s.take(sampling.Choice{ID: id})
	}
	s.writer, s.epoch, s.doubtful = d, d.claims, d.chain.Doubtful()
	b.add(s)
	return true
}

func (l *line) must(err error) {
	if err != nil {
		l.rt.Fatal(err)
	}
}

// kills reports whether a microbatch has the step that takes its replica down.
func (l *line) kills(mb *microbatch) bool {
	for i := range mb.parts {
		p := &mb.parts[i]
		if p.s.seq.RequestId == l.deadly && p.s.generated() == l.at && p.s.done+p.rows == len(p.s.ids) {
			return true
		}
	}
	return false
}

// check wants a doubtful sequence in flight to be alone, under a record.
func (l *line) check(b *bench) {
	for _, mb := range b.flying {
		for i := range mb.parts {
			s := mb.parts[i].s
			if s.doubtful && (len(b.flying) > 1 || len(mb.parts) > 1 || !b.trial.recorded) {
				l.rt.Fatalf("%s is stepped beside %d microbatches of %d", s.seq.RequestId, len(b.flying), len(mb.parts))
			}
		}
	}
}

// A sequence that takes its owners down takes four or five, and ends as an error; those
// beside it end whole, also when a replica goes by chance.
func TestSequenceThatKills(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &line{
			t: t, rt: rt, logs: map[string]*diary{}, deadly: "deadly", at: rapid.IntRange(0, 2).Draw(rt, "at"),
			rows: rapid.IntRange(1, 9).Draw(rt, "rows"), pages: rapid.IntRange(1, 6).Draw(rt, "pages"),
			chance: rapid.IntRange(0, 40).Draw(rt, "chance"),
		}
		draw := func(name string) {
			l.logs[name] = newDiary(rapid.IntRange(1, 20).Draw(rt, "prompt"), 3)
		}
		draw(l.deadly)
		for i := range rapid.IntRange(0, 6).Draw(rt, "others") {
			draw(fmt.Sprint(i))
		}
		for lives := 0; slices.ContainsFunc(slices.Collect(maps.Values(l.logs)), (*diary).open); lives++ {
			if l.live(); lives > 20 {
				rt.Fatal("it does not end")
			}
		}
		for name, d := range l.logs {
			if want := map[bool]string{true: "error", false: "length"}[name == l.deadly]; d.chain.End().FinishReason != want {
				rt.Errorf("%s ended by %v with %d tokens", name, d.chain.End(), len(d.ids))
			}
		}
		if l.deaths < 4 || l.deaths > 6 { // five, and one by chance
			rt.Errorf("%d replicas went down", l.deaths)
		}
	})
}
