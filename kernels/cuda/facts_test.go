package cuda

import (
	"errors"
	"testing"
)

// Reasons have names; those that slow a GPU that has work are told apart.
func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		reasons          Reasons
		names, throttles string
	}{
		{0, "", ""},
		{0x01, "idle", ""},
		{0x04 | 0x02, "clock_setting, power_limit", ""},
		{0x08 | 0x40 | 0x04, "hardware, hardware_thermal, power_limit", "hardware, hardware_thermal"},
		{0x20, "software_thermal", "software_thermal"},
		{0x80, "power_brake", "power_brake"},
		{0x110, "display_setting, sync_boost", ""},
		{1 << 40, "", ""}, // of a newer library
	} {
		f := Facts{Values: map[FactName]float64{Slowed: float64(tt.reasons)}}
		if got := f.Reasons(); got != tt.reasons || got.String() != tt.names || got.Throttling().String() != tt.throttles {
			t.Errorf("%#x: %q, of which %q slow", uint64(got), got, got.Throttling())
		}
	}
	if got := (Facts{}).Reasons(); got != 0 || got.Has("unknown") {
		t.Errorf("a GPU that does not say: %v", got)
	}
}

// Of the driver's errors few are the end of the GPU.
func TestFatal(t *testing.T) {
	for _, tt := range []struct {
		xids []uint64
		want string
	}{
		{nil, ""},
		{[]uint64{13, 31, 43, 45, 94}, ""},
		{[]uint64{13, 79}, "the GPU is lost to this process; start it anew: Xid 79, it has fallen off the bus"},
		{[]uint64{95}, "the GPU is lost to this process; start it anew: Xid 95, an error in its memory that was not contained"},
	} {
		err := Facts{Xids: tt.xids}.Fatal()
		if errors.Is(err, ErrLost) != (tt.want != "") || err != nil && err.Error() != tt.want {
			t.Errorf("%v: %v", tt.xids, err)
		}
	}
}
