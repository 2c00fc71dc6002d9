package bus

import (
	"errors"
	"testing"
	"time"
)

// A stream that was there is made again when it has been gone for a while; one
// that never was is made at once.
func TestDeletions(t *testing.T) {
	d, now := deletions{}, time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	for _, step := range []struct {
		name  string
		at    int
		found bool
		early bool
	}{
		{"new", 0, false, false}, {"new", 0, true, false},
		{"new", 10, false, true}, {"new", 1000, false, true}, {"new", 1600, false, false},
		{"new", 1700, true, false}, {"new", 1800, false, true}, // again from the beginning
		{"other", 1800, false, false},
	} {
		if step.found {
			d.found(step.name)
			continue
		}
		if err := d.missing(step.name, at(step.at)); errors.Is(err, errJustDeleted) != step.early {
			t.Errorf("%s at %d ms: %v", step.name, step.at, err)
		}
	}
}
