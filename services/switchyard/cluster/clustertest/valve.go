package clustertest

import (
	"slices"
	"sync"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Valve holds rows in the gates of a pipeline while it is shut: a test does something in the
// middle of an answer, however long that takes, and the answer goes on behind it.
type Valve struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when it opens; nil: it is open
	steps map[uint64]bool
	at    int // at which step of generated tokens it shuts; 0: it does not by itself
}

// In has the gates of a pipeline pass rows through the valve, which is open.
func (v *Valve) In(s *cluster.Settings) {
	s.Services.Gate.Fates = func(h *pb.Hidden) *pb.Fates {
		if shut := v.meet(h); shut != nil {
			<-shut
		}
		return nil
	}
}

// meet returns what rows wait for; nil: they pass.
func (v *Valve) meet(h *pb.Hidden) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	generated := func(p *pb.PhaseRange) bool { return p.Phase == pb.Phase_PHASE_DECODE }
	if v.at > 0 && slices.ContainsFunc(h.Phases, generated) {
		if v.steps[h.Key.Step] = true; len(v.steps) == v.at {
			v.at, v.shut = 0, make(chan struct{})
		}
	}
	return v.shut
}

// Shut holds rows until Open, or the test's end.
func (v *Valve) Shut(t testing.TB) {
	t.Helper()
	t.Cleanup(v.Open)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		v.shut = make(chan struct{})
	}
}

// ShutAt holds the next answer at its step of that number behind the prompt, until Open or the test's
// end, however late the test sees what was made: as many tokens, and more where drafts were right. No
// other answer is under way.
func (v *Valve) ShutAt(t testing.TB, step int) {
	t.Helper()
	t.Cleanup(v.Open)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.steps, v.at = map[uint64]bool{}, step
}

// Open lets all rows pass.
func (v *Valve) Open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at = 0
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}
