package delivery

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Of two replicas that serve a reader, however far their clocks are apart, the one
// that he asked last stays; of two that he asked at once, exactly one.
func TestOneStreamToAReader(t *testing.T) {
	t.Parallel()
	to := Destination{Subject: "inbox"}
	for name, c := range map[string]struct {
		ahead   time.Duration // of the first replica's clock
		crossed bool          // each opens its stream before it hears of the other's
		stays   string
	}{
		"agree":          {0, false, "second"},
		"first is ahead": {time.Minute, false, "second"},
		"second ahead":   {-time.Minute, false, "second"},
		"crossed":        {time.Minute, true, "first"},
		"crossed back":   {-time.Minute, true, "second"},
		"the same turn":  {0, true, "second"},
	} {
		now := time.Now()
		at := func(id string, ahead time.Duration) *openReplays {
			return newOpenReplays(id, func() time.Time { return now.Add(ahead) })
		}
		first, second := at("a", c.ahead), at("b", 0)
		open := func(s *openReplays) (context.Context, *replay) {
			st := &replay{request: "r", to: to}
			ctx, err := s.add(t.Context(), st)
			if err != nil {
				t.Fatal(err)
			}
			return ctx, st
		}
		hear := func(s, from *openReplays, st *replay) { s.takenOver(from.id, "r", to.Subject, st.turn) }

		one, a := open(first)
		if !c.crossed {
			hear(second, first, a)
		}
		two, b := open(second)
		if c.crossed {
			hear(second, first, a)
		}
		hear(first, second, b)
		stays := "both or neither"
		if (one.Err() == nil) != (two.Err() == nil) {
			stays = map[bool]string{true: "first", false: "second"}[one.Err() == nil]
		}
		if stays != c.stays {
			t.Errorf("%s: %s stays, want the %s", name, stays, c.stays)
		}
	}
}

// A stream that is handed on keeps its place: its former sender's word does not end it, and
// the one that its reader asked for meanwhile does, whether it is here or elsewhere.
func TestTurnOfWhatIsHandedOn(t *testing.T) {
	t.Parallel()
	to, now := Destination{Subject: "inbox"}, time.Now()
	for name, c := range map[string]struct {
		ahead  time.Duration // of the clock of who hands it on
		asked  string        // whom the reader asked meanwhile, if anybody
		serves string
	}{
		"nobody is asked":        {0, "", "b"},
		"the next one is asked":  {0, "b", "none"}, // but by the stream that was asked for
		"a third one is asked":   {0, "a", "a"},
		"a third one, far apart": {time.Hour, "a", "a"},
	} {
		former := newOpenReplays("z", func() time.Time { return now.Add(c.ahead) })
		others := map[string]*openReplays{}
		for _, id := range []string{"b", "a"} {
			others[id] = newOpenReplays(id, func() time.Time { return now })
		}
		old := &replay{request: "r", to: to}
		if _, err := former.add(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		for _, s := range others {
			s.takenOver(former.id, "r", to.Subject, old.turn)
		}
		asked := &replay{request: "r", to: to}
		if c.asked != "" {
			if _, err := others[c.asked].add(t.Context(), asked); err != nil {
				t.Fatal(err)
			}
		}
		next := &replay{request: "r", to: to, turn: old.handed().Turn}
		ctx, err := others["b"].add(t.Context(), next)
		if err == nil {
			others["b"].takenOver(former.id, "r", to.Subject, old.turn) // late
			if later := others["a"].takenOver("b", "r", to.Subject, next.turn); later != nil {
				others["b"].takenOver("a", "r", to.Subject, later.turn)
			}
		}
		serves := "none"
		if err == nil && ctx.Err() == nil {
			serves = "b"
		} else if others["a"].readers["r"] != nil {
			serves = "a"
		}
		if serves != c.serves || (err == nil) != (c.asked != "b") {
			t.Errorf("%s: %s serves, want %s; error %v", name, serves, c.serves, err)
		}
	}
}

// One tenant's requests leave readers of another's answer their share of the streams.
func TestReplaysAreShared(t *testing.T) {
	t.Parallel()
	s := newOpenReplays("tokenizer-1", time.Now)
	open := func(tenant string, i int) *replay {
		st := &replay{request: fmt.Sprint(tenant, i/maxStreamsPerRequest), tenant: tenant, to: Destination{Subject: fmt.Sprint("in", i)}, turn: s.next()}
		if _, err := s.add(t.Context(), st); err != nil {
			return nil
		}
		return st
	}
	n := 0
	for ; open("most", n) != nil; n++ {
	}
	if n != maxStreams/2 {
		t.Errorf("one tenant alone has %d streams, want %d", n, maxStreams/2)
	}
	unknown := open("", 0)
	if unknown == nil || open("other", 0) == nil {
		t.Fatal("others have none")
	}
	if err := s.belongs(unknown, "most"); err == nil {
		t.Error("a stream whose request turns out to be the tenant's makes more than its share")
	}
	if err := s.belongs(unknown, "other"); err != nil {
		t.Error(err)
	}
	for _, st := range s.byID {
		s.close(st)
	}
	if had := s.held.Had(); had != 0 {
		t.Errorf("%d are still held", had)
	}
}
