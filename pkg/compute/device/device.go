package device

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Device holds experts and computes with them. It is safe for concurrent use.
type Device interface {
	// Name says to people what computes, such as "cpu".
	Name() string
	// Load makes an expert warm and holds it. It returns at once; the ticket says
	// when and how the load ended. Loads of a higher priority begin first; of the
	// same priority, the one wanted last, or as Settings.Order says. Wanting an expert
	// that waits already moves it to the place of the new want. The end of ctx cancels the load if it
	// has not ended before, and means nothing afterwards.
	Load(ctx context.Context, id forward.ExpertID, priority int64) *Ticket
	// Evict frees an expert that nobody holds and nothing computes with; else it
	// returns *HeldError. A cold expert is no error.
	Evict(id forward.ExpertID) error
	// State is what the device knows of an expert.
	State(id forward.ExpertID) State
	// Size is the bytes that an expert takes on this device.
	Size(id forward.ExpertID) (int64, error)
	// Memory is the bytes of all experts.
	Memory() Memory
	// Begin says that a call's experts are in use from now on, for rows that came so long
	// ago; End says that the call has ended, and what it took of memory.
	Begin(u *Use, layer int, experts []uint32, waited time.Duration)
	End(u *Use)
	// Reorder changes what Settings.Order knows, while the device orders nothing. The change
	// calls nothing of the device.
	Reorder(change func())
	// Metered is what the experts in memory have come to, MeteredLayer those of a layer.
	Metered() meter.Sums
	MeteredLayer(layer int) meter.Sums
	// Compute fills out (entries, D), entry by entry, and keeps the experts that
	// it needs from being evicted until it returns. A row's result does not depend
	// on the other entries. One call at a time uses s; calls with different
	// scratch run side by side. A device that can add up what it gives for a row is
	// a forward.Summer, too.
	Compute(in forward.Routed, out []float32, s *forward.ExpertScratch) error
	// Close cancels all loads, waits until the loader has returned, and frees what
	// nobody holds. Loads are cancelled from then on.
	Close()
}

// Reporter is a device with figures of its own.
type Reporter interface {
	// Report adds them to a host's stats.
	Report(stats map[string]float64)
}

// Failer is a device that can be lost before its host ends. It computes nothing from
// then on.
type Failer interface {
	// Failed is closed when the device is lost.
	Failed() <-chan struct{}
	// Err is why it is lost; nil if it is not.
	Err() error
}

// Phase is where an expert is in its life.
type Phase int

// The phases. A cold expert whose last load failed is Failed until it is loaded again.
const (
	Cold Phase = iota
	Loading
	Warm
	Failed
)

var phaseNames = [...]string{"cold", "loading", "warm", "failed"}

func (p Phase) String() string { return phaseNames[p] }

// State of an expert.
type State struct {
	Phase Phase
	Err   error
	// Bytes are those that it takes or that are reserved for it; 0 if it is cold.
	Bytes int64
	// Tickets is how many tickets hold it or wait for it.
	Tickets int
	// Queued says that it is Loading, and that its load has not begun.
	Queued bool
}

// Memory of a device in bytes. Used is of warm experts and of loads that wait or
// run, which are counted beside. A Budget of 0 is no limit.
type Memory struct {
	Used, Budget     int64
	Waiting, Running int
}

// Settings of a device.
type Settings struct {
	// Budget bounds the bytes of experts; 0 is no limit.
	Budget int64
	// Loads is how many loads run at a time; 0 is DefaultLoads.
	Loads int
	// Beside are experts that are none of the model's; nil: there are none.
	Beside Beside
	// Order says what is evicted first of the experts that nobody holds, and loaded
	// first of those of an urgency; nil is residency.Newest.
	Order residency.Order
	// Ended, if set, is called when a load ends, a refused one included. It is
	// called without a lock; calls may overlap.
	Ended func(Ended)
}

// Beside is experts of the shape of a model's, which are numbered behind the routed ones of each
// layer. A processor's devices have them.
type Beside interface {
	// Units is how many numbers each layer has for them.
	Units() int
	// Size and Load are a Loader's.
	Size(id forward.ExpertID) (int64, error)
	Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error)
}

// Units returns how many experts a layer of a model has with those beside.
func (s Settings) Units(spec model.Spec) int {
	if s.Beside == nil {
		return spec.Experts
	}
	return spec.Experts + s.Beside.Units()
}

// Demanded, added to a priority, says that rows wait for a load, and Hinted that nobody
// does yet. While rows wait, no other load begins, and those that run stand still from
// the end of a piece on, if they have pieces. A load that is Hinted takes memory, and may
// be refused, when it begins.
const (
	Demanded int64 = 1 << 61
	Hinted         = -Demanded
)

// want returns what a priority asks of a unit.
func want(u unit.Unit, bytes, priority int64) residency.Want {
	w := residency.Want{Unit: u, Bytes: bytes, Urgency: residency.Planned, Priority: priority}
	switch {
	case priority >= Demanded/2:
		w.Urgency, w.Priority = residency.Demanded, priority-Demanded
	case priority <= Hinted/2:
		w.Urgency, w.Priority = residency.Hinted, priority-Hinted
	}
	return w
}

// DefaultLoads lets one slow load pass without holding up the others.
const DefaultLoads = 2

// Ended tells of a load's end.
type Ended struct {
	ID    forward.ExpertID
	Bytes int64
	// Waited is the time from the want to the begin of the load; Took from there on.
	Waited, Took time.Duration
	// Err is nil, *RefusedError, *FailedError or ErrCancelled.
	Err error
}
