package tokenizer

import (
	"testing"
	"time"
)

// exactAbout is how far the servers' time may be from what is known of it: by half of
// the time that a look takes on a busy machine.
const exactAbout = 10 * time.Second

// A replica whose host's clock is wrong judges deadlines by the servers'.
func TestDeadlineUnderWrongClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		wrong, within time.Duration
		code          string
	}{
		{"ahead", 10 * time.Minute, time.Minute, ""},
		{"behind", -10 * time.Minute, -time.Minute, "deadline_exceeded"},
		{"far behind", -2 * time.Hour, time.Minute, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			s := New(r.deployment(), Config{MaxQueued: DefaultMaxQueued})
			s.probe.Streams.Clock.Here = func() time.Time { return time.Now().Add(c.wrong) }
			r.start(s)
			got := r.inbox()
			r.prompt(`{"request_id":"r","text":"hi","reply_to":"` + got.subject + `","deadline":"` + time.Now().Add(c.within).Format(time.RFC3339Nano) + `"}`)
			if c.code != "" {
				if end := got.end(); end.Error.GetCode() != c.code {
					t.Errorf("it ended with %v", end)
				}
				return
			}
			left := time.Duration(r.opened("r").DeadlineMs) * time.Millisecond
			if left <= 0 || left > c.within+exactAbout {
				t.Errorf("%v are left of %v", left, c.within)
			}
		})
	}
}
