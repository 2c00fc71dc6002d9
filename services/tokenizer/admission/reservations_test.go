package admission

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Large answers may fill a part of the token log, whatever runs: the rest is for
// small ones.
func TestRoomForSmallOnes(t *testing.T) {
	t.Parallel()
	const bound = 1000
	for _, tc := range []struct {
		name            string
		bytes, reserved int64
		need            need
		want            edge.Code
	}{
		{"small, to the end", 800, 100, need{50, false}, ""},
		{"small, beyond", 800, 100, need{51, false}, edge.Overloaded},
		{"small, too large", 0, 0, need{951, false}, edge.PayloadTooLarge},
		{"large, to its part", 300, 100, need{75, true}, ""},
		{"large, beyond", 300, 100, need{76, true}, edge.Overloaded},
		{"large, too large", 0, 0, need{476, true}, edge.PayloadTooLarge},
		{"small, where large ones are refused", 475, 0, need{475, false}, ""},
	} {
		l := probe.Level{Stream: "S", Bytes: tc.bytes, Bound: bound}
		var got *edge.Error
		errors.As(hold(l, tc.reserved, tc.need), &got)
		if (got == nil) != (tc.want == "") || got != nil && got.Code != tc.want {
			t.Errorf("%s: %v, want %q", tc.name, got, tc.want)
		}
	}
	if err := hold(probe.Level{}, 1<<60, need{1 << 60, true}); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}
