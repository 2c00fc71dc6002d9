package aggregator

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// times is what a group's partials say of the time before them. Each partial
// that adds a row adds one function at most, so they are as many as routed rows.
type times struct {
	gate      *pb.GateTime
	functions []*pb.FunctionTime
	cold      int       // rows that waited for cold functions
	fates     *pb.Fates // nil: all slots had their own experts
}

// functionBytes is about what a function's time takes.
const functionBytes = 128

func (t *times) add(p *pb.Partial) {
	if t.gate == nil {
		t.gate = p.Gate
	}
	if t.fates == nil {
		t.fates = p.Fates
	}
	if p.Function != nil {
		t.functions = append(t.functions, p.Function)
		t.cold += len(p.Function.ColdRows)
	}
}
