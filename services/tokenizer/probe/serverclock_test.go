package probe

import (
	"testing"
	"time"
)

func TestServerClock(t *testing.T) {
	server, here := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	local := here
	c := ServerClock{Here: func() time.Time { return local }}
	steps := []struct {
		name   string
		look   func()
		passes time.Duration
		want   time.Time
	}{
		{"no server has told", func() {}, 0, here},
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
		if got := c.Now(); !got.Equal(s.want) {
			t.Errorf("%s: %v, want %v", s.name, got, s.want)
		}
	}
}
