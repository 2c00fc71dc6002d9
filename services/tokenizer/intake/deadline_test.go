package intake_test

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
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
			r := rig.New(t, 0)
			s := r.Unstarted(r.Deployment())
			s.Probe.Streams.Clock.Here = func() time.Time { return time.Now().Add(c.wrong) }
			r.Start(s)
			got := r.Inbox()
			r.Prompt(`{"request_id":"r","text":"hi","reply_to":"` + got.Subject + `","deadline":"` + time.Now().Add(c.within).Format(time.RFC3339Nano) + `"}`)
			if c.code != "" {
				if end := got.End(); end.Error.GetCode() != c.code {
					t.Errorf("it ended with %v", end)
				}
				return
			}
			left := time.Duration(r.Opened("r").DeadlineMs) * time.Millisecond
			if left <= 0 || left > c.within+exactAbout {
				t.Errorf("%v are left of %v", left, c.within)
			}
		})
	}
}
