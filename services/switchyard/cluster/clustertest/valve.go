package clustertest

import (
	"sync"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Valve holds rows in the gates of a pipeline while it is shut: a test does something in the
// middle of an answer, however long that takes, and the answer goes on behind it.
type Valve struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil: it is open
}

// In has the gates of a pipeline pass rows through the valve, which is open.
func (v *Valve) In(s *cluster.Settings) {
	s.Services.Gate.Fates = func(*pb.Hidden) *pb.Fates {
		v.mu.Lock()
		shut := v.shut
		v.mu.Unlock()
		if shut != nil {
			<-shut
		}
		return nil
	}
}

// Shut holds rows until Open, or the test's end.
func (v *Valve) Shut(t testing.TB) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		v.shut = make(chan struct{})
		t.Cleanup(v.Open)
	}
}

// Open lets all rows pass.
func (v *Valve) Open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}
