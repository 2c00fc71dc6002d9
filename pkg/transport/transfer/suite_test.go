package transfer_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
)

// Backend is a store of the suite.
type Backend struct {
	transfer.Objects
	// Count is how many messages or objects the store holds.
	Count func() int
}

// Run has every mode pass the suite over a store, each test over a new one.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, w := range Ways {
		t.Run(w.String(), func(t *testing.T) {
			for name, test := range map[string]func(*testing.T, Backend, Way){
				"same": same, "killed": killed, "full": full, "full later": fullLater, "gone": gone, "corrupt": corrupt, "unstored outputs": unstored,
			} {
				t.Run(name, func(t *testing.T) { test(t, open(t), w) })
			}
		})
	}
}

// want is what the direct mode gives.
func want(t *testing.T, step uint64) map[uint32]string {
	t.Helper()
	r := NewRig(t, &Memory{})
	if err := r.Scatter(Ways[0], Dispatch(step)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Host(r.Dispatches(), false, -1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	return r.gather(false).Rows
}

// gather wants a whole answer, told once of what is told once.
func (r *Rig) gather(repeated bool) Answer {
	r.T.Helper()
	a, err := r.Gather()
	switch {
	case err != nil:
		r.T.Fatal(err)
	case !repeated && (a.Told != 1 || a.Times != 1 || int(a.Computed) != len(a.Rows)):
		r.T.Errorf("told %d times, of %d functions that computed %d of %d rows", a.Told, a.Times, a.Computed, len(a.Rows))
	case a.Key.GetAggregator() != "" || a.Key.GetRowSums() || a.Key.GetOwner() == "":
		r.T.Errorf("its key is %v", a.Key)
	}
	return a
}

// compare wants the rows of the direct mode, and that the store keeps nothing.
func (r *Rig) compare(t *testing.T, a Answer, b Backend) {
	t.Helper()
	if !maps.Equal(a.Rows, want(t, a.Key.Step)) {
		t.Errorf("%d rows are not those of messages", len(a.Rows))
	}
	if err := r.Forget(t.Context(), transfer.Group(a.Key)); err != nil {
		t.Fatal(err)
	}
	if n := b.Count(); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

// A mode moves the rows of a dispatch as messages do, in as many objects as it has minibatches, and
// leaves nothing.
func same(t *testing.T, b Backend, w Way) {
	r := NewRig(t, b)
	for step := range uint64(3) {
		if err := r.Scatter(w, Dispatch(step)); err != nil {
			t.Fatal(err)
		}
		all := r.Dispatches()
		if len(all) != 1 {
			t.Fatalf("%d messages to the host", len(all))
		}
		n, err := r.Host(all, false, -1)
		if err != nil || n != max(1, w.pieces()) {
			t.Fatalf("%d minibatches, %v", n, err)
		}
		r.compare(t, r.gather(false), b)
		if puts := r.Objects.Puts(); puts != int(step+1)*2*w.pieces() {
			t.Errorf("%d objects after %d dispatches of %d", puts, step+1, w.pieces())
		}
	}
	if fell := r.Fell(); len(fell) > 0 {
		t.Errorf("fell back: %v", fell)
	}
}

// Who goes on for a host that was killed between minibatches computes what is missing, and no more.
func killed(t *testing.T, b Backend, w Way) {
	n := max(1, w.pieces())
	for dies := range n {
		r := NewRig(t, b)
		if err := r.Scatter(w, Dispatch(1)); err != nil {
			t.Fatal(err)
		}
		all := r.Dispatches()
		first, err := r.Host(all, false, dies)
		if !errors.Is(err, errKilled) || first != dies {
			t.Fatalf("died after %d of %d: %v", first, n, err)
		}
		if there := len(r.take(aggregator)); there != dies { // the aggregator may be lost, too
			t.Errorf("%d partials of %d minibatches", there, dies)
		}
		all[0].Key.Aggregator, all[0].Key.RowSums, all[0].Key.Attempt, all[0].Function = "a", true, 1, "0f"
		again, err := r.Host(all, true, -1)
		if err != nil || again != n-dies {
			t.Errorf("%d of %d were there, and %d were computed again: %v", dies, n, again, err)
		}
		r.compare(t, r.gather(true), b)
	}
}

// Rows for which the store has no room go in messages, which is counted.
func full(t *testing.T, b Backend, w Way) {
	if w.pieces() == 0 {
		t.Skip("it stores nothing")
	}
	for name, err := range map[string]error{"full": transfer.ErrFull, "unavailable": transfer.ErrNoStore} {
		r := NewRig(t, b)
		r.Objects.Putting = func(string) error { return err }
		for step := range uint64(2) {
			if err := r.Scatter(w, Dispatch(step)); err != nil {
				t.Fatal(err)
			}
			if n, err := r.Host(r.Dispatches(), false, -1); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			r.compare(t, r.gather(false), b)
		}
		if fell := r.Fell(); len(fell) != 1 || fell[fellTo(w, name)] != 2 {
			t.Errorf("%s: fell back %v", name, fell)
		}
		if puts := r.Objects.Puts(); name == "unavailable" && puts != 1 {
			t.Errorf("a store that does not answer was asked %d times", puts)
		}
	}
}

func fellTo(w Way, why string) string {
	return strings.Join([]string{string('0' + rune(w.Mode)), "to", string('0'+rune(plan.Direct)) + ":", why}, " ")
}

// A store that is full behind the first minibatch: the rest goes in messages.
func fullLater(t *testing.T, b Backend, w Way) {
	if w.pieces() < 2 {
		t.Skip("there is none")
	}
	r := NewRig(t, b)
	r.Objects.Putting = func(name string) error {
		if strings.Contains(name, ".i.1.") {
			return transfer.ErrFull
		}
		return nil
	}
	if err := r.Scatter(w, Dispatch(1)); err != nil {
		t.Fatal(err)
	}
	all := r.Dispatches()
	if len(all) != 2 || all[1].Parcel != nil {
		t.Fatalf("%d messages", len(all))
	}
	if _, err := r.Host(all[1:], false, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Host(all[:1], false, -1); !errors.Is(err, transfer.ErrMissing) {
		t.Errorf("what is not stored: %v", err)
	}
	r.compare(t, r.gather(true), b)
}

// Rows and outputs that are gone are errors that say so.
func gone(t *testing.T, b Backend, w Way) {
	if w.pieces() == 0 {
		t.Skip("nothing is stored")
	}
	r := NewRig(t, b)
	if err := r.Scatter(w, Dispatch(1)); err != nil {
		t.Fatal(err)
	}
	all := r.Dispatches()
	if err := r.Forget(t.Context(), transfer.Group(all[0].Key)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Host(all, false, -1); n != 0 || !errors.Is(err, transfer.ErrMissing) {
		t.Errorf("a host without rows: %d, %v", n, err)
	}
	if err := r.Scatter(w, Dispatch(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Host(r.Dispatches(), false, -1); err != nil {
		t.Fatal(err)
	}
	if err := r.Forget(t.Context(), transfer.Group(all[0].Key)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Gather(); !errors.Is(err, transfer.ErrMissing) {
		t.Errorf("an aggregator without outputs: %v", err)
	}
}

// What is not what its digest says is not computed, nor summed.
func corrupt(t *testing.T, b Backend, w Way) {
	if w.pieces() == 0 {
		t.Skip("nothing is stored")
	}
	r := NewRig(t, b)
	if err := r.Scatter(w, Dispatch(1)); err != nil {
		t.Fatal(err)
	}
	all := r.Dispatches()
	for _, p := range all[0].Parcel.Pieces {
		p.Sha256[0]++
	}
	if n, err := r.Host(all, false, -1); n != 0 || !errors.Is(err, transfer.ErrCorrupt) {
		t.Errorf("a host with other rows: %d, %v", n, err)
	}
}

// Outputs for which there is no room are in the message.
func unstored(t *testing.T, b Backend, w Way) {
	if w.pieces() == 0 {
		t.Skip("nothing is stored")
	}
	r := NewRig(t, b)
	r.Objects.Putting = func(name string) error {
		if strings.Contains(name, ".o.") {
			return transfer.ErrFull
		}
		return nil
	}
	if err := r.Scatter(w, Dispatch(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Host(r.Dispatches(), false, -1); err != nil {
		t.Fatal(err)
	}
	r.compare(t, r.gather(false), b)
	if fell := r.Fell(); fell[fellTo(w, "full")] != w.pieces() {
		t.Errorf("fell back %v", fell)
	}
}
