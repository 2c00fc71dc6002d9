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
	outOfMemory := errors.Is(err, device.ErrOutOfMemory)
	switch {
	case ctx.Err() != nil:
		return 0 // something else is wanted by now
	case !outOfMemory && !errors.As(err, &refused):
		s.failed(f, err)
		return keepRetry
	}
	need, room := s.needs(f, outOfMemory)
	if need <= room && s.makeRoom() {
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
}

// needs is the bytes of a function, and those that the device has for it: what the
// other functions leave that are wanted here.
func (s *Service) needs(f *function, outOfMemory bool) (need, room int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := map[forward.ExpertID]bool{}
	for _, other := range s.functions {
		if other != f && other.loads() && other.state.Phase != isRefused {
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

// makeRoom drops the function that was retired first, though gates may still use
// it: else the host would wait for the gates and the gates for the host. Its rows
// are issued again. False says that none is left.
func (s *Service) makeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *function
	for _, f := range s.functions {
		if f.want == nothing && (oldest == nil || f.priority < oldest.priority) {
			oldest = f
		}
	}
	if oldest == nil {
		return false
	}
	if !oldest.drop {
		oldest.drop = true
		s.kick(oldest)
	}
	return true
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
}
