package replay

import (
	"math"
	"testing"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What hosts held counts from the run's begin, also of one that is heard for the first time
// after that, and what they hold counts on until they are heard again.
func TestHeld(t *testing.T) {
	r, at := &recorder{hosts: map[string]heardHost{}}, time.Unix(100, 0)
	say := func(host string, held float64, bytes uint64) {
		r.hear(&pb.LoadSample{Host: host, Memory: &pb.HostLoad{UsedBytes: bytes, Use: &pb.MemoryUse{KeptGbS: held / 2, ServingGbS: held / 2}}}, at)
	}
	want := func(what string, want float64) {
		t.Helper()
		if got := r.gigabyteSeconds(at) - r.held; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v GB·s, want %v", what, got, want)
		}
	}
	say("a", 40, 2e9)
	at = at.Add(time.Second)
	r.begin(at) // a has 42
	want("at the begin", 0)
	at = at.Add(3 * time.Second)
	want("3 s later", 6)
	say("a", 50, 1e9)
	want("heard again", 8)
	say("b", 1000, 4e9)
	want("with another one", 8+12)
	at = at.Add(time.Second)
	want("at the end", 20+5)
}
