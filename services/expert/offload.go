package expert

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A host that offloads serves what is planned warm on it, also what it does not hold:
// functions whose rows have come take turns. Who finds no room stands in a line, and only
// its first one loads: so each that has stood there for long enough gets all of its
// experts, however many others want some of the same room.

// errTurn says that a function waits for room behind others.
var errTurn = errors.New("others have waited for room before")

// order is in which functions make room for others.
func (s *Service) order() residency.Order {
	if s.config.Offload != nil {
		return s.config.Offload
	}
	return residency.LRU{}
}

// item is a function as an order sees it: as its first expert; the service's mu is held.
func (f *function) item() *residency.Item {
	item := &residency.Item{Urgency: residency.Planned, Priority: f.priority, Used: uint64(max(0, f.unused.UnixNano()))}
	if len(f.spec.Experts) > 0 {
		item.Unit = unit.Expert(f.layer, int(f.spec.Experts[0]))
	}
	if f.demanded {
		item.Urgency = residency.Demanded
	}
	return item
}

// missing is the bytes of a function that the device does not hold.
func (s *Service) missing(f *function) (need int64) {
	f.eachExpert(func(id forward.ExpertID) {
		if s.device.State(id).Phase == device.Cold {
			need += s.size(id)
		}
	})
	return need
}

// holds says whether the device has room for a function as it is.
func (s *Service) holds(f *function) bool {
	m := s.device.Memory()
	return m.Budget == 0 || s.missing(f) <= m.Budget-m.Used
}

// canHold says whether the device has room for a function when it holds nothing else.
func (s *Service) canHold(f *function) bool {
	var whole int64
	f.eachExpert(func(id forward.ExpertID) { whole += s.size(id) })
	budget := s.device.Memory().Budget
	return budget == 0 || whole <= budget
}

// turn says whether a function may load, or stands in the line behind others.
func (s *Service) turn(f *function) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimLine()
	if len(s.line) == 0 || s.line[0] == f {
		return nil
	}
	return errTurn
}

// waitsForRoom lets a function that found no room, or others before it, stand in the
// line, and makes room for the first. It is false for one that will never have room, and
// on hosts that do not offload.
func (s *Service) waitsForRoom(f *function) bool {
	if s.config.Offload == nil || !s.canHold(f) {
		return false
	}
	s.mu.Lock()
	if f.want == kept { // it gives way, and waits in no line
		s.mu.Unlock()
		return false
	}
	if !slices.Contains(s.line, f) {
		s.line = append(s.line, f)
	}
	s.trimLine()
	first := len(s.line) > 0 && s.line[0] == f
	s.mu.Unlock()
	if first {
		m := s.device.Memory()
		s.makeRoom(f, s.missing(f)-(m.Budget-m.Used))
	}
	return true
}

// hasRoom ends that a function stands in the line whose loads were all taken.
func (s *Service) hasRoom(f *function) {
	for _, t := range f.experts {
		if refused := (*device.RefusedError)(nil); errors.As(t.Err(), &refused) {
			return
		}
	}
	s.leaveLine(f)
}

// leaveLine lets the next one try.
func (s *Service) leaveLine(f *function) {
	if s.config.Offload == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = slices.DeleteFunc(s.line, func(one *function) bool { return one == f })
	s.nextInLine()
}

// nextInLine lets the first of the line look for room; s.mu is held.
func (s *Service) nextInLine() {
	if s.trimLine(); len(s.line) > 0 {
		s.kick(s.line[0])
	}
}

// trimLine lets those go that are to load no more; s.mu is held.
func (s *Service) trimLine() {
	s.line = slices.DeleteFunc(s.line, func(f *function) bool { return !f.loads() || f.state.Phase == isWarm })
	s.lined.Store(len(s.line) > 0)
}

// shown is what the others see of a function: one that is offloaded computes what comes,
// as a warm one does, so nobody hears of it when it makes room or comes back; the
// service's mu is held.
func (f *function) shown() *pb.FunctionState {
	state := proto.CloneOf(f.state)
	if f.offloaded && state.Joined && (state.Phase == isWarming || state.Phase == isCold) {
		state.Phase = isWarm
	}
	return state
}
