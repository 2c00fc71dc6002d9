package tokenizer

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	server, here := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	local := here
	c := clock{here: func() time.Time { return local }}
	steps := []struct {
		name   string
		look   func()
		passes time.Duration
		want   time.Time
	}{
		{"nobody has told", func() {}, 0, here},
		{"a server without a clock", func() { c.set(time.Time{}, here, here) }, 0, here},
		{"a first look, however slow", func() { c.set(server, here, here.Add(2*time.Second)) }, 2 * time.Second, server.Add(time.Second)},
		{"it goes on", func() {}, time.Minute, server.Add(61 * time.Second)},
		{"a slower look says less", func() { c.set(server, local, local.Add(3*time.Second)) }, time.Second, server.Add(62 * time.Second)},
		{"one as slow as the first sets it", func() { c.set(server, local, local.Add(2*time.Second)) }, 2 * time.Second, server.Add(time.Second)},
		{"a quick look sets it", func() { c.set(server, local, local.Add(exactLook)) }, exactLook, server.Add(exactLook / 2)},
		{"a slow look then says less", func() { c.set(server, local, local.Add(2*time.Second)) }, 0, server.Add(exactLook / 2)},
	}
	for _, s := range steps {
		s.look()
		local = local.Add(s.passes)
		if got := c.now(); !got.Equal(s.want) {
			t.Errorf("%s: %v, want %v", s.name, got, s.want)
		}
	}
}

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
			s.clock.here = func() time.Time { return time.Now().Add(c.wrong) }
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
