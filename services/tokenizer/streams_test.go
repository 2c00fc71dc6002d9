package tokenizer

import (
	"context"
	"testing"
	"time"
)

// Of two replicas that serve a reader, however far their clocks are apart, the one
// that he asked last stays; of two that he asked at once, exactly one.
func TestOneStreamToAReader(t *testing.T) {
	t.Parallel()
	to := destination{subject: "inbox"}
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
		at := func(id string, ahead time.Duration) *streams {
			return newStreams(id, func() time.Time { return now.Add(ahead) })
		}
		first, second := at("a", c.ahead), at("b", 0)
		open := func(s *streams) (context.Context, *stream) {
			ctx, st, err := s.open(t.Context(), "r", to, false)
			if err != nil {
				t.Fatal(err)
			}
			return ctx, st
		}
		hear := func(s, from *streams, st *stream) { s.takenOver(from.id, "r", to.subject, st.turn) }

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
