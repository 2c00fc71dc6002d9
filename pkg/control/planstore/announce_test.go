package planstore

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What somebody else has written to a key is written over, also when that is seen before
// the own write is known to be stored.
func TestWrittenOver(t *testing.T) {
	const key = "3.host-a"
	for _, tc := range []struct {
		name    string
		happens func(a *Announcer, body []byte)
		again   bool
	}{
		{"nothing", func(*Announcer, []byte) {}, false},
		{"another's, later", func(a *Announcer, _ []byte) { a.saw(key, []byte("x"), 8) }, true},
		{"another's, before", func(a *Announcer, _ []byte) { a.saw(key, []byte("x"), 6) }, false},
		{"our own", func(a *Announcer, body []byte) { a.saw(key, body, 7) }, false},
		{"another's key", func(a *Announcer, _ []byte) { a.saw("3.host-b", []byte("x"), 8) }, false},
	} {
		for _, first := range []bool{true, false} {
			a := &Announcer{dirty: make(chan struct{}, 1), keys: map[string]*said{}, more: make(chan struct{})}
			if err := a.Set(key, &pb.HostLayer{Host: "host-a", Layer: 3}); err != nil {
				t.Fatal(err)
			}
			body := a.keys[key].body
			if first {
				tc.happens(a, body)
			}
			a.wrote(key, body, 7)
			if !first {
				tc.happens(a, body)
			}
			if got := len(a.unwritten()) > 0; got != tc.again {
				t.Errorf("%s, seen before the acknowledgement %v: to be written again %v", tc.name, first, got)
			}
		}
	}
}
