package aggregator

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A group has the gate's time once and each function's that added rows, also
// when its memory is used for the second time.
func TestTimes(t *testing.T) {
	gs, x := newGroups(shape(2), room), noise(1, 8*width)
	send := func(step uint64, function uint64, places ...int) (*group, outcome) {
		k := key(2)
		k.Step = step
		p := partial(k, x, places)
		p.Function = &pb.FunctionTime{Function: function}
		if places[0] == 0 {
			p.Gate = &pb.GateTime{QueueNs: step}
		}
		g, what, err := gs.add(p, now)
		if err != nil {
			t.Fatal(err)
		}
		return g, what
	}
	for step := range uint64(2) {
		send(step, 1, 3)
		send(step, 9, 3) // a repeat
		send(step, 2, 0)
		g, what := send(step, 3, 1, 2)
		if what != whole || g.gate.GetQueueNs() != step || len(g.functions) != 3 {
			t.Fatalf("outcome %d: gate %v, functions %v", what, g.gate, g.functions)
		}
		for i, f := range g.functions {
			if f.Function != uint64(i+1) {
				t.Errorf("function %d is %v", i, f)
			}
		}
		gs.release(g)
	}
}
