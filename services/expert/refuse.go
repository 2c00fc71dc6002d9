package expert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// errNoRoom says that memory is for functions that take rows.
var errNoRoom = errors.New("no memory is left for functions that are only kept")

const (
	// roomEvery is how often a function looks for memory before it is refused:
	// other layers' plans, which free some, may be on their way.
	roomEvery = 50 * time.Millisecond
	// roomTries is how often it looks.
	roomTries = 4
)

// notWarm says when to try again after an error of a load.
func (s *Service) notWarm(ctx context.Context, f *function, err error) time.Duration {
	var refused *device.RefusedError
	outOfMemory, reserved := errors.Is(err, device.ErrOutOfMemory), errors.Is(err, errNoRoom) || errors.Is(err, errTurn)
	switch {
	case ctx.Err() != nil:
		return 0 // something else is wanted by now
	case errors.Is(err, device.ErrCancelled):
		return keepRetry // the host ends, and says nothing more
	case !outOfMemory && !reserved && !errors.As(err, &refused):
		s.failed(f, err)
		s.leaveLine(f)
		return keepRetry
	case !outOfMemory && s.waitsForRoom(f):
		return roomEvery
	}
	need, room := s.roomFor(f, outOfMemory)
	if need <= room && s.makeRoom(f, s.short(need, outOfMemory)) {
		return roomEvery
	}
	if f.roomless++; f.roomless < roomTries && !outOfMemory {
		return roomEvery
	}
	s.refuse(f, need, room, err)
	if outOfMemory { // its budget is not what it holds; plans are to know
		s.presence.SetBudget(max(1, uint64(room)))
	}
	return keepRetry
}

// failed tells once of a load that does not work.
func (s *Service) failed(f *function, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason := fmt.Sprintf("%.256s", err); f.state.Reason != reason {
		s.d.Logger.Error("function not loaded; trying again", "function", f.spec.Id, "layer", f.layer, "error", err)
		s.say(f, &pb.FunctionState{Id: f.spec.Id, Phase: isWarming, Joined: f.receiving != nil, Reason: reason})
	}
	s.giveBack(f)
}

// short is how many of a function's bytes the device does not have now.
func (s *Service) short(need int64, outOfMemory bool) int64 {
	if m := s.device.Memory(); !outOfMemory {
		return need - (m.Budget - m.Used)
	}
	return need
}

// roomFor is needs without the lock.
func (s *Service) roomFor(f *function, outOfMemory bool) (need, room int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needs(f, outOfMemory)
}

// needs is the bytes of a function, and those that the device has for it: what the
// other functions leave that cannot make room for it; s.mu is held.
func (s *Service) needs(f *function, outOfMemory bool) (need, room int64) {
	others := map[forward.ExpertID]bool{}
	for _, other := range s.functions {
		if other != f && other.loads() && other.state.Phase != isRefused && other.spareFor(f) == needed {
			other.eachExpert(func(id forward.ExpertID) { others[id] = true })
		}
	}
	var used int64
	for id := range others {
		used += s.size(id)
	}
	f.eachExpert(func(id forward.ExpertID) {
		if !others[id] {
			need += s.size(id)
		}
	})
	if outOfMemory {
		return need, used
	}
	return need, max(0, s.device.Memory().Budget-used)
}

func (f *function) eachExpert(do func(forward.ExpertID)) {
	if f.cannot != nil {
		return
	}
	for _, e := range f.spec.Experts {
		do(forward.ExpertID{Layer: f.layer, Expert: int(e)})
	}
}

func (s *Service) size(id forward.ExpertID) int64 {
	n, err := s.device.Size(id)
	if err != nil {
		return 0
	}
	return n
}

// refuse tells the others, and the log.
func (s *Service) refuse(f *function, need, room int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.state.Phase == isRefused && f.state.NeedBytes == uint64(need) && f.state.RoomBytes == uint64(room) {
		return
	}
	s.say(f, &pb.FunctionState{
		Id: f.spec.Id, Phase: isRefused, Joined: f.receiving != nil, Reason: fmt.Sprintf("%.256s", err),
		NeedBytes: uint64(need), RoomBytes: uint64(room),
	})
	s.presence.Add("functions_refused_total", 1)
	s.d.Logger.Error("function does not fit on this host; raise --expert-memory or add a host",
		"function", f.spec.Id, "layer", f.layer, "need_bytes", need, "room_bytes", room)
	s.giveBack(f)
}
