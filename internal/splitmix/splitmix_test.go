package splitmix

import "testing"

// The first numbers of the authors' reference generator from seed 1234567.
func TestNext(t *testing.T) {
	state := uint64(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if got := Next(&state); got != want {
			t.Errorf("number %d: %d, want %d", i, got, want)
		}
	}
}
