package expert

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/control/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// UnitError says that a host cannot serve a function that a plan wants of it, whatever
// memory it has: nothing is loaded for it, and its rows go to other functions.
type UnitError struct {
	Function, Reason string
}

// Error names the function and what to do.
func (e *UnitError) Error() string { return fmt.Sprintf("function %s: %s", e.Function, e.Reason) }

// able says why this host cannot serve a function; nil if it can.
func (s *Service) able(f *pb.Function) error {
	switch t := f.GetTransfer(); {
	case f.GetKind() != plan.Routed:
		return &UnitError{f.GetId(), fmt.Sprintf("this host has no weights of united experts of way %d; give it a bundle of them, or plan it elsewhere", f.GetWay())}
	case t != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED && t != plan.Direct:
		return &UnitError{f.GetId(), fmt.Sprintf("this host takes rows in single messages (transfer mode %d, direct), and the plan wants mode %d; plan it with mode %[1]d", plan.Direct, t)}
	}
	return nil
}

// unable refuses a function that this host can never serve, once, and says so to the others.
func (s *Service) unable(f *function, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.state.Phase == isRefused {
		return
	}
	s.say(f, &pb.FunctionState{Id: f.spec.Id, Phase: isRefused, Joined: f.receiving != nil, Reason: fmt.Sprintf("%.256s", err)})
	s.presence.Add("functions_refused_total", 1)
	s.d.Logger.Error("a function of the plan cannot be served here", "layer", f.layer, "error", err)
	s.giveBack(f)
}
