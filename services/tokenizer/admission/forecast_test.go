package admission

import (
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// A stream's warning comes from four fifths on, once a minute; from nine tenths on
// what needs room there is refused with what to do.
func TestLevels(t *testing.T) {
	t.Parallel()
	spec, begin := schemas.StreamSpec{Name: "S", Kind: "sequence"}, time.Unix(1000, 0)
	full := func(bytes, messages uint64) bus.StreamState {
		return bus.StreamState{Bytes: bytes, MaxBytes: 1000, Messages: messages, MaxMessages: 100}
	}
	var l probe.Levels
	for i, tc := range []struct {
		state   bus.StreamState
		after   time.Duration
		warned  bool
		refused string
	}{
		{full(790, 79), 0, false, ""},
		{bus.StreamState{Bytes: 1 << 40, MaxBytes: -1, MaxMessages: -1}, 0, false, ""},
		{full(800, 0), 0, true, ""},
		{full(950, 0), 59 * time.Second, false, "950 of its 1000 bytes"},
		{full(10, 90), time.Minute, true, "90 of its 100 messages"},
		{full(10, 89), 3 * time.Minute, true, ""},
		{full(10, 10), 5 * time.Minute, false, ""},
	} {
		_, warned := l.Set("S", spec.Kind, tc.state, begin.Add(tc.after))
		if warned != tc.warned {
			t.Errorf("%d: warned %v, want %v", i, warned, tc.warned)
		}
		err := checkStreams(&l, spec)
		if (err != nil) != (tc.refused != "") || err != nil && (!strings.Contains(err.Error(), tc.refused) || !strings.Contains(err.Error(), probe.Cure("sequence"))) {
			t.Errorf("%d: refused with %v, want %q", i, err, tc.refused)
		}
	}
}
