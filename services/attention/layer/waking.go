package layer

import (
	"strings"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// longestWake is for how long a host that loads a cold function delays that rows
// of its layer are sent again.
const longestWake = 2 * time.Minute

// maxWaking bounds the hosts and layers that are noted.
const maxWaking = 4096

// waking are the layers in which hosts load cold functions because rows have come.
// The rows wait there; sending them again would only make more of them.
type waking struct {
	mu    sync.RWMutex
	hosts map[string]wakeUp // by key in the bucket
}

type wakeUp struct {
	layer int
	began time.Time
}

// says takes in what a host says of its functions of a layer.
func (w *waking) says(key string, r *pb.HostLayer, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !wakes(r) {
		delete(w.hosts, key)
	} else if _, already := w.hosts[key]; !already && len(w.hosts) < maxWaking {
		if w.hosts == nil {
			w.hosts = map[string]wakeUp{}
		}
		w.hosts[key] = wakeUp{int(r.Layer), now}
	}
}

// wakes reports whether a function is loaded while it takes rows: only one that was
// cold does.
func wakes(r *pb.HostLayer) bool {
	for _, f := range r.GetFunctions() {
		if f.Joined && f.Phase == pb.FunctionPhase_FUNCTION_PHASE_WARMING {
			return true
		}
	}
	return false
}

// in reports whether rows of a layer may wait for a wake-up.
func (w *waking) in(layer int, now time.Time) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, u := range w.hosts {
		if u.layer == layer && now.Sub(u.began) < longestWake {
			return true
		}
	}
	return false
}

// hear takes in a change of the bucket of functions.
func (w *waking) hear(s planstore.FunctionSettings, key string, value []byte, deleted bool) {
	if strings.HasPrefix(key, planstore.GateKey("")) {
		return
	}
	if deleted {
		w.says(key, nil, time.Now())
	} else if r, err := s.DecodeHost(key, value); err == nil {
		w.says(key, r, time.Now())
	}
}
